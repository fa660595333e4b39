import { setMaxListeners } from 'node:events';

import { systemClock } from '../kit/clock.js';
import { type Random, systemRandom } from '../kit/random.js';
import type { Attachment } from '../wire/attachment.js';
import type { Operation, ReplyOf } from '../wire/endpoint.js';
import type { Credential } from './credentials/credential.js';
import { secureUrl } from './http/address.js';
import { timeout } from './http/request-error.js';
import { createTransport, type Transport } from './http/transport.js';
import type { TailItem, TailOptions } from './realtime/tail.js';
import type { Download, DownloadOptions, Upload } from './rest/attachments.js';
import {
  type CallInput,
  type CallOptions,
  type CallResult,
  callEndpoint,
  type RawAnswer,
  type RawRequest,
  type RestContext,
  sendRaw,
} from './rest/call.js';
import type { ServiceAddresses } from './service-addresses.js';

export type {
  AccessToken,
  AccessTokenRequest,
  Credential,
  CredentialSource,
  Resource,
} from './credentials/credential.js';
export { type FailedRequest, type Outcome, type OwnErrorCode, RequestError } from './http/request-error.js';
export type { TraceEntry } from './http/trace.js';
export type { ProxyRule, RetryPause, Transport, TransportOptions } from './http/transport.js';
export type { TailItem, TailOptions, TailStart } from './realtime/tail.js';
export type { Download, DownloadOptions, Upload } from './rest/attachments.js';
export type { CallInput, CallOptions, CallResult, RawAnswer, RawRequest } from './rest/call.js';
export type { ServiceAddresses } from './service-addresses.js';

const RETRIES = 4;

/**
 * Speaks to one service as one agent. Its methods retry what is safe to retry (a write keeps one idempotency key on all
 * attempts) and throw a {@link RequestError}, whose `outcome` says whether a write happened.
 */
export interface Client {
  /**
   * Calls an operation of the service by its name and returns the decoded reply. A service that leaves out an optional member
   * is read as if it had sent `null`.
   * @throws RequestError
   */
  call<Name extends Exclude<Operation, 'uploadAttachment'>>(
    operation: Name,
    input: CallInput<Name>,
  ): Promise<CallResult<ReplyOf<Name>>>;
  /** Uploads a file, for use in messages by its id. @throws RequestError */
  upload(file: Upload, options?: CallOptions): Promise<CallResult<Attachment>>;
  /**
   * Opens the bytes of an attachment. A connection that breaks is resumed where it stopped.
   * @throws RequestError `ASP_FILE_TOO_LARGE` for more than `maxBytes` (default 10 MiB).
   */
  download(attachmentId: string, options?: DownloadOptions): Promise<Download>;
  /** Sends any request below the base URL and returns the answer, whatever its status. @throws RequestError without an answer. */
  raw(request: RawRequest): Promise<RawAnswer>;
  /**
   * Follows sessions: each event once, in the order of its session, across reconnects. It waits for a service that is away for
   * as long as it takes, and reports that as `reconnecting` items; with `retries: 0` it does not wait for its first connection.
   * Named sessions are asked for every few seconds where the credential may read them, but not open the event stream.
   * @throws RequestError for what waiting cannot fix: a login that ended, a missing scope, a wrong address.
   */
  tail(options?: TailOptions): AsyncIterable<TailItem>;
}

/** Options of {@link connect}. */
export interface ClientOptions {
  readonly service: ServiceAddresses;
  readonly credential: Credential;
  /** How requests are sent (default: a transport of its own, without a proxy). */
  readonly transport?: Transport | undefined;
  /** Attempts after the first (default 4). */
  readonly retries?: number | undefined;
  /**
   * How long each call may take, attempts and pauses included, in milliseconds. Without it a call has no deadline, but it never
   * pauses for more than two minutes in all: a rate limit that asks for more fails at once with `RATE_LIMITED` and the time to
   * wait in `retryAfterMs`.
   */
  readonly timeoutMs?: number | undefined;
  /** Where jitter and idempotency keys come from; for tests. */
  readonly random?: Random | undefined;
}

/** Makes a client. It sends nothing before its first call. @throws RequestError `ASP_INSECURE_ADDRESS` */
export function connect(options: ClientOptions): Client {
  const { service, credential, random = systemRandom, timeoutMs } = options;
  const transport = options.transport ?? createTransport({ clock: systemClock });
  secureUrl(service.baseUrl, 'base URL');
  const context: RestContext = {
    baseUrl: service.baseUrl,
    transport,
    random,
    retries: options.retries ?? RETRIES,
    bearer: async (rejected, signal) => (await credential.accessToken('api', { rejected, signal })).token,
    deadline: () => (timeoutMs === undefined ? undefined : transport.clock.monotonic() + timeoutMs),
  };
  const limited = <Result>(signal: AbortSignal | undefined, work: (signal?: AbortSignal) => Promise<Result>) =>
    withinTime(transport, timeoutMs, signal, work);
  return {
    call: (operation, input) =>
      limited(input.signal, (signal) => callEndpoint(context, operation, { ...input, signal })),
    async upload(file, given = {}) {
      const { uploadFile } = await import('./rest/attachments.js');
      return limited(given.signal, (signal) => uploadFile(context, file, { ...given, signal }));
    },
    async download(attachmentId, given) {
      const { openDownload } = await import('./rest/attachments.js');
      return openDownload(context, attachmentId, given);
    },
    raw: (request) => limited(request.signal, (signal) => sendRaw(context, { ...request, signal })),
    async *tail(given = {}) {
      const { tailSessions } = await import('./realtime/resume.js');
      yield* tailSessions({ service, credential, transport, random, rest: context }, given);
    },
  };
}

/** Aborts `work` when the caller's signal does, or when the time is over. */
async function withinTime<Result>(
  transport: Transport,
  timeoutMs: number | undefined,
  signal: AbortSignal | undefined,
  work: (signal?: AbortSignal) => Promise<Result>,
): Promise<Result> {
  // One signal may end any number of calls at once, which Node.js would report as a leak.
  if (signal !== undefined) setMaxListeners(0, signal);
  if (timeoutMs === undefined) return work(signal);
  const controller = new AbortController();
  const onAbort = (): void => controller.abort(signal?.reason);
  if (signal?.aborted === true) onAbort();
  signal?.addEventListener('abort', onAbort, { once: true });
  const late = `The call was not done within its ${timeoutMs} ms.`;
  const stop = transport.clock.schedule(timeoutMs, () => controller.abort(timeout('unknown', late)));
  try {
    return await work(controller.signal);
  } finally {
    stop();
    signal?.removeEventListener('abort', onAbort);
  }
}
