import { once } from 'node:events';
import { type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';

/** A stream of server-sent events, as received so far. */
export interface Feed {
  readonly headers: IncomingHttpHeaders;
  text(): string;
  /** The sequences of the received entries, in order of arrival. */
  sequences(): number[];
  until(fits: (sequences: readonly number[]) => boolean): Promise<void>;
  readonly ended: Promise<void>;
  close(): void;
}

export async function createFeed(url: string, headers: Record<string, string>): Promise<Feed> {
  const sent = request(url, { headers: { accept: 'text/event-stream', ...headers }, agent: false });
  sent.end();
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  let received = '';
  answer.setEncoding('utf8').on('data', (chunk: string) => {
    received += chunk;
  });
  answer.on('error', () => {});
  const ended = new Promise<void>((resolve) => answer.once('close', resolve));
  const sequences = (): number[] =>
    [...received.matchAll(/data-sequence=\\"(\d+)\\"/g)].map(([, number]) => Number(number));
  return {
    headers: answer.headers,
    text: () => received,
    sequences,
    async until(fits) {
      const deadline = AbortSignal.timeout(20_000);
      while (!fits(sequences()))
        await once(answer, 'data', { signal: deadline }).catch(() => {
          throw new Error(`not received in time: ${received.slice(-2_000)}`);
        });
    },
    ended,
    close: () => void sent.destroy(),
  };
}
