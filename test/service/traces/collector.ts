import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import * as z from 'zod/mini';

const attributes = z.array(
  z.strictObject({
    key: z.string(),
    value: z.union([
      z.strictObject({ stringValue: z.string() }),
      z.strictObject({ intValue: z.string().check(z.regex(/^-?\d+$/)) }),
    ]),
  }),
);
const nanoseconds = z.string().check(z.regex(/^\d{19}$/));
const spanId = z.string().check(z.regex(/^[0-9a-f]{16}$/));

const Span = z.strictObject({
  traceId: z.string().check(z.regex(/^[0-9a-f]{32}$/)),
  spanId,
  parentSpanId: z.optional(spanId),
  name: z.string(),
  kind: z.int(),
  startTimeUnixNano: nanoseconds,
  endTimeUnixNano: nanoseconds,
  attributes,
  status: z.strictObject({ code: z.optional(z.int()) }),
});

/** An OTLP/HTTP request in JSON, as a collector reads it (opentelemetry-proto, trace_service.proto). */
const ExportRequest = z.strictObject({
  resourceSpans: z.array(
    z.strictObject({
      resource: z.strictObject({ attributes }),
      scopeSpans: z.array(z.strictObject({ scope: z.strictObject({ name: z.string() }), spans: z.array(Span) })),
    }),
  ),
});

export type ReceivedSpan = z.output<typeof Span>;

/** A local collector. It accepts everything unless a test sets another answer. */
export interface Collector {
  readonly url: string;
  readonly spans: ReceivedSpan[];
  readonly texts: string[];
  readonly headers: IncomingHttpHeaders[];
  readonly resources: unknown[];
  /** `silence` sends no answer. */
  answer: { status: number; body?: string } | 'silence';
  close(): Promise<void>;
}

export async function startCollector(port = 0): Promise<Collector> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { answer } = collector;
      if (answer === 'silence') return;
      const text = Buffer.concat(chunks).toString();
      if (answer.status === 200) {
        collector.texts.push(text);
        collector.headers.push(request.headers);
        for (const { resource, scopeSpans } of ExportRequest.parse(JSON.parse(text)).resourceSpans) {
          collector.resources.push(plain(resource.attributes));
          collector.spans.push(...scopeSpans.flatMap(({ spans }) => spans));
        }
      }
      response.writeHead(answer.status, { 'content-type': 'application/json' }).end(answer.body ?? '{}');
    });
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const collector: Collector = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans: [],
    texts: [],
    headers: [],
    resources: [],
    answer: { status: 200 },
    close() {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
  return collector;
}

/** Returns attributes as an object. */
export function plain(list: z.output<typeof attributes>): Record<string, string | number> {
  return Object.fromEntries(
    list.map(({ key, value }) => [key, 'stringValue' in value ? value.stringValue : Number(value.intValue)]),
  );
}
