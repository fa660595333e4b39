import type { Clock } from '../../kit/clock.js';
import type { ProxySettings } from './proxy.js';
import type { Trace } from './trace.js';

/** One HTTP request, without retry or credentials of its own. */
export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE' | 'HEAD';
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: string | Uint8Array | AsyncIterable<Uint8Array> | undefined;
  readonly signal?: AbortSignal | undefined;
  /** A redirect is handed back as it is, and nothing is requested from its address. */
  readonly isRedirectAnAnswer?: boolean | undefined;
  /** Refuse an answer above this many bytes; 64 MiB unless said. Not for `open`. */
  readonly maxBytes?: number | undefined;
  /** How long the connection and the whole answer's silence may last; 10 s and 30 s unless said. */
  readonly connectTimeoutMs?: number | undefined;
  readonly silenceTimeoutMs?: number | undefined;
}

/** An answer. Header names are lower case; a repeated header is joined by `, `. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** An answer whose body is read as it arrives. */
export interface HttpStream {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: AsyncIterable<Uint8Array>;
}

/**
 * Sends requests. It refuses plain http beyond loopback, follows redirects only for GET within one origin (at most 3),
 * and honours the proxy settings. A failure says by its outcome whether the request may have arrived.
 */
export interface Transport {
  /** @throws RequestError `ASP_UNREACHABLE`, `ASP_TLS`, `ASP_TIMEOUT`, `ASP_ABORTED`, `ASP_INSECURE_ADDRESS`, `ASP_BAD_ANSWER`. */
  send(request: HttpRequest): Promise<HttpAnswer>;
  open(request: HttpRequest): Promise<HttpStream>;
  readonly proxy: ProxySettings;
  readonly clock: Clock;
  readonly trace: Trace | undefined;
  /** Closes idle connections. They do not keep the process alive. */
  close(): Promise<void>;
}

/** What a transport is made of. */
export interface TransportOptions {
  readonly clock: Clock;
  /** None unless said; see `proxyFromEnvironment`. */
  readonly proxy?: ProxySettings | undefined;
  readonly trace?: Trace | undefined;
  /** `asp-cli` unless said. */
  readonly userAgent?: string | undefined;
}
