import { systemClock } from '../kit/clock.js';
import { type Random, systemRandom } from '../kit/random.js';
import type { Attachment } from '../wire/attachment.js';
import type { Operation, ReplyOf } from '../wire/endpoint.js';
import type { Credential } from './credentials/credential.js';
import { secureUrl } from './http/address.js';
import { createTransport } from './http/create-transport.js';
import type { Transport } from './http/transport.js';
import type { TailItem, TailOptions } from './realtime/tail.js';
import { type CallInput, type CallOptions, type CallResult, callEndpoint, type RestContext } from './rest/call.js';
import type { Download } from './rest/download.js';
import type { RawAnswer, RawRequest } from './rest/raw.js';
import type { Upload } from './rest/upload.js';
import type { ServiceAddresses } from './service-addresses.js';

export type {
  AccessToken,
  AccessTokenRequest,
  Credential,
  CredentialSource,
  Resource,
} from './credentials/credential.js';
export { type Outcome, RequestError } from './http/request-error.js';
export type { Transport, TransportOptions } from './http/transport.js';
export type { TailItem, TailOptions, TailStart } from './realtime/tail.js';
export type { CallInput, CallOptions, CallResult } from './rest/call.js';
export type { Download } from './rest/download.js';
export type { RawAnswer, RawRequest } from './rest/raw.js';
export type { Upload } from './rest/upload.js';
export type { ServiceAddresses } from './service-addresses.js';

const RETRIES = 4;

/** Speaks to one service as one agent. */
export interface Client {
  /** One endpoint of the table, with retries (spec: Endpoints; Client handling). @throws RequestError */
  call<Name extends Exclude<Operation, 'uploadAttachment'>>(
    operation: Name,
    input: CallInput<Name>,
  ): Promise<CallResult<ReplyOf<Name>>>;
  /** Uploads a file (spec: POST /attachments). @throws RequestError */
  upload(file: Upload, options?: CallOptions): Promise<CallResult<Attachment>>;
  /** Opens the bytes of an attachment (wire: Content and attachments). @throws RequestError */
  download(attachmentId: string, options?: CallOptions): Promise<Download>;
  /** Sends what it is told, with the bearer and, on writes, a key; any status is an answer. @throws RequestError */
  raw(request: RawRequest): Promise<RawAnswer>;
  /** Follows sessions: each event once, in order of its session, across reconnects (spec: Events). @throws RequestError */
  tail(options?: TailOptions): AsyncIterable<TailItem>;
}

/** What a client is made of. */
export interface ClientOptions {
  readonly service: ServiceAddresses;
  readonly credential: Credential;
  /** One of its own, without a proxy, unless given. */
  readonly transport?: Transport | undefined;
  /** Tries after the first: 4 unless said (spec: Rate limits, recommended back-off). */
  readonly retries?: number | undefined;
  /** How long each call may take, tries and waits included, in milliseconds; without end unless said. */
  readonly timeoutMs?: number | undefined;
  readonly random?: Random | undefined;
}

/** Makes a client. Nothing is sent before its first call. @throws RequestError `ASP_INSECURE_ADDRESS` */
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
      const { uploadFile } = await import('./rest/upload.js');
      return limited(given.signal, (signal) => uploadFile(context, file, { ...given, signal }));
    },
    async download(attachmentId, given) {
      const { openDownload } = await import('./rest/download.js');
      return openDownload(context, attachmentId, given);
    },
    async raw(request) {
      const { sendRaw } = await import('./rest/raw.js');
      return limited(request.signal, (signal) => sendRaw(context, { ...request, signal }));
    },
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
  if (timeoutMs === undefined) return work(signal);
  const controller = new AbortController();
  const { timeout } = await import('./http/failure.js');
  const onAbort = (): void => controller.abort(signal?.reason);
  if (signal?.aborted === true) onAbort();
  signal?.addEventListener('abort', onAbort, { once: true });
  const stop = transport.clock.schedule(timeoutMs, () => controller.abort(timeout('unknown', 'The time was over.')));
  try {
    return await work(controller.signal);
  } finally {
    stop();
    signal?.removeEventListener('abort', onAbort);
  }
}
