import { subscribe, unsubscribe } from 'node:diagnostics_channel';

export interface SentRequest {
  readonly method: string;
  readonly path: string;
  /** The names are lowercase. */
  readonly headers: Readonly<Record<string, string>>;
}

const CHANNEL = 'undici:request:create';

/** Records all requests that the HTTP library sends from now on, as the library itself reports them. */
export function watchRequests(): { readonly sent: SentRequest[]; stop(): void } {
  const sent: SentRequest[] = [];
  const listen = (message: unknown): void => {
    const { request } = message as { request: { method: string; path: string; headers: readonly string[] } };
    const { method, path, headers } = request;
    const pairs = headers.flatMap((name, at) => (at % 2 === 0 ? [[name.toLowerCase(), headers[at + 1] ?? '']] : []));
    sent.push({ method, path, headers: Object.fromEntries(pairs) });
  };
  subscribe(CHANNEL, listen);
  return { sent, stop: () => void unsubscribe(CHANNEL, listen) };
}
