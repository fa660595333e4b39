import { setMaxListeners } from 'node:events';

import { abortAfter, systemClock } from '../kit/clock.js';
import { capitalized } from '../kit/format.js';
import { joinSignals } from '../kit/join-signals.js';
import { type Random, systemRandom } from '../kit/random.js';
import { didYouMean, requireKnownOptions } from '../kit/suggest.js';
import { ENDPOINT, type Operation } from '../wire/endpoint.js';
import type { Attachment } from '../wire/schemas/attachment.js';
import type { AnswerOf } from '../wire/schemas/endpoint.js';
import type { Credential } from './credentials/credential.js';
import type { ServiceAddresses } from './http/address.js';
import { readAddresses, secureUrl } from './http/address.js';
import { clientClosed, RequestError, timeout } from './http/request-error.js';
import { createTransport, type Transport } from './http/transport.js';
import type { TailItem, TailOptions, TailStart } from './realtime/resume.js';
import type { OpenSocket } from './realtime/socket.js';
import type { Download, DownloadOptions, UploadOptions, UploadSource } from './rest/attachments.js';
import {
  type CallArguments,
  type CallInput,
  type CallOptions,
  type CallResult,
  callEndpoint,
  type PagedOperation,
  type RawAnswer,
  type RawRequest,
  type RestContext,
  readPages,
  sendRaw,
} from './rest/call.js';

export type {
  AccessToken,
  AccessTokenRequest,
  Credential,
  CredentialSource,
  Resource,
} from './credentials/credential.js';
export type { ServiceAddresses } from './http/address.js';
export {
  type FailedRequest,
  type Outcome,
  type OwnErrorCode,
  RequestError,
  type RequestErrorCode,
} from './http/request-error.js';
export type { ProxyRule, RetryPause, TraceEntry, Transport, TransportOptions } from './http/transport.js';
export type { TailItem, TailOptions, TailStart } from './realtime/resume.js';
export type { BlobLike, Download, DownloadOptions, Upload, UploadOptions, UploadSource } from './rest/attachments.js';
export type {
  CallArguments,
  CallInput,
  CallOptions,
  CallResult,
  PagedOperation,
  RawAnswer,
  RawRequest,
} from './rest/call.js';

const RETRIES = 4;

/**
 * Talks to one service as one agent. Its methods retry what is safe to retry (a write keeps one idempotency key for all
 * attempts) and throw a {@link RequestError}, whose `outcome` says whether a write happened.
 */
export interface Client {
  /**
   * Calls an operation of the service by its name and returns the decoded reply. If a service leaves out an optional
   * member, the reply has `null`.
   * @throws RequestError
   */
  call<Name extends Exclude<Operation, 'uploadAttachment'>>(
    operation: Name,
    ...input: CallArguments<Name>
  ): Promise<CallResult<AnswerOf<Name>>>;
  /**
   * The pages of a list, or of the events of a session, from where `query` begins to the end. Each one is read when the loop asks for it.
   * @throws RequestError
   */
  pages<Name extends PagedOperation>(operation: Name, ...input: CallArguments<Name>): AsyncIterable<AnswerOf<Name>>;
  /**
   * Uploads a file, so that a message can refer to it: `{ type: 'file', attachment_id: reply.id }`.
   * @throws RequestError `ASP_FILE_TYPE`, `ASP_FILE_TOO_LARGE`, `ASP_USAGE` for a file that changes in the meantime. A file that cannot be read throws the error of Node.js.
   */
  upload(file: UploadSource, options?: UploadOptions): Promise<CallResult<Attachment>>;
  /**
   * Opens the bytes of an attachment. If the connection breaks, the download resumes where it stopped.
   * @throws RequestError `ASP_FILE_TOO_LARGE` for more than `maxBytes` (default 10 MiB).
   */
  download(attachmentId: string, options?: DownloadOptions): Promise<Download>;
  /**
   * Sends any request below the base URL and returns the answer, whatever its status. @throws RequestError if there is
   * no answer.
   */
  raw(request: RawRequest): Promise<RawAnswer>;
  /**
   * Follows sessions: each event once, in the order of its session, across reconnects. It waits for an unavailable
   * service for as long as necessary and reports that as `reconnecting` items; with `retries: 0` it does not wait for
   * its first connection. It polls named sessions every few seconds if the credential may read them but may not open
   * the event stream. While the agent has as many event streams as the service allows, it reads named sessions between
   * its attempts to open another one.
   * @throws RequestError for errors that waiting cannot fix: a login that ended, a missing scope, a wrong address.
   */
  tail(options?: TailOptions): AsyncIterable<TailItem>;
  /**
   * Ends the tails, cancels the calls in progress (`ASP_ABORTED`) and closes the connections that the client opened
   * itself. Nothing can be called afterwards.
   */
  close(): Promise<void>;
  /** Closes the client at the end of an `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** Options of {@link connect}. */
export interface ClientOptions {
  readonly service: ServiceAddresses;
  readonly credential: Credential;
  /** How requests are sent (default: its own transport, without a proxy). */
  readonly transport?: Transport | undefined;
  /** Attempts after the first (default 4; at most 1 if nothing listens on a port of this machine). */
  readonly retries?: number | undefined;
  /**
   * How long each call may take, including attempts and pauses, in milliseconds. Without it a call has no deadline, but
   * it never pauses for more than two minutes in total: a longer rate limit fails at once with `RATE_LIMITED` and the
   * time to wait in `retryAfterMs`.
   */
  readonly timeoutMs?: number | undefined;
  /** The source of jitter and idempotency keys; for tests. */
  readonly random?: Random | undefined;
}

/** Creates a client. It sends nothing before its first call. @throws RequestError `ASP_INSECURE_ADDRESS` */
export function connect(options: ClientOptions): Client {
  const { credential, random = systemRandom, timeoutMs } = options;
  const service = readAddresses(options.service);
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
  const life = new AbortController();
  setMaxListeners(0, life.signal);
  let openShared: OpenSocket | undefined;
  const limited = async <Result>(signal: AbortSignal | undefined, work: (signal?: AbortSignal) => Promise<Result>) => {
    const open = joinSignals(signal, life.signal);
    return withinTime(transport, timeoutMs, open.signal, work).finally(open.release);
  };
  const close = async (): Promise<void> => {
    life.abort(clientClosed());
    if (options.transport === undefined) await transport.close();
  };
  const callWith = <Name extends Operation>(operation: Name, input: CallInput<Name>) =>
    limited(input.signal, (signal) => callEndpoint(context, operation, { ...input, signal }));
  return {
    call: async (operation, ...[input]) => callWith(operation, inputOf(operation, input)),
    async *pages(operation, ...[input]) {
      yield* readPages(operation, inputOf(operation, input), (next) => callWith(operation, next));
    },
    async upload(file, supplied = {}) {
      requireKnownOptions('upload', supplied, UPLOAD_OPTIONS);
      const { openUpload, uploadFile } = await import('./rest/attachments.js');
      const { filename, isText, ...options } = supplied;
      const upload = await openUpload(file, { filename, isText });
      return limited(options.signal, (signal) => uploadFile(context, upload, { ...options, signal }));
    },
    async download(attachmentId, supplied = {}) {
      requireKnownOptions('download', supplied, DOWNLOAD_OPTIONS);
      const { openDownload } = await import('./rest/attachments.js');
      const open = joinSignals(supplied.signal, life.signal);
      try {
        const { body, ...facts } = await openDownload(context, attachmentId, { ...supplied, signal: open.signal });
        return { ...facts, body: afterwards(body, open.release) };
      } catch (error) {
        open.release();
        throw error;
      }
    },
    raw: (request) => limited(request.signal, (signal) => sendRaw(context, { ...request, signal })),
    async *tail(supplied = {}) {
      requireKnownOptions('tail', supplied, TAIL_OPTIONS);
      for (const start of supplied.sessions ?? []) requireKnownOptions('A session of tail', start, TAIL_START);
      const [{ tailSessions }, { createSharedSocket }] = await Promise.all([
        import('./realtime/resume.js'),
        import('./realtime/shared-socket.js'),
      ]);
      openShared ??= createSharedSocket();
      const open = joinSignals(supplied.signal, life.signal);
      try {
        const from = { service, credential, transport, random, rest: context, openShared };
        for await (const items of tailSessions(from, { ...supplied, signal: open.signal }))
          for (const item of items) yield item;
      } finally {
        open.release();
      }
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

const CALL_OPTIONS: Record<keyof Required<CallOptions>, true> = { idempotencyKey: true, signal: true, retries: true };
const CALL_INPUT = { path: true, query: true, body: true, ...CALL_OPTIONS } as const;
const UPLOAD_OPTIONS: Record<keyof Required<UploadOptions>, true> = { filename: true, isText: true, ...CALL_OPTIONS };
const DOWNLOAD_OPTIONS: Record<keyof Required<DownloadOptions>, true> = { maxBytes: true, ...CALL_OPTIONS };
const TAIL_OPTIONS: Record<keyof Required<TailOptions>, true> = {
  ...{
    sessions: true,
    cursors: true,
    sinceMs: true,
    handle: true,
    isFollowing: true,
    sharesStream: true,
    signal: true,
  },
};
const TAIL_START: Record<keyof Required<TailStart>, true> = { sessionId: true, after: true, last: true, epoch: true };

/** The types allow a call without input if no member of it is required. */
function inputOf<Name extends Operation>(operation: Name, input: CallInput<Name> | undefined): CallInput<Name> {
  requireOperation(operation);
  if (input !== undefined) requireKnownOptions(operation, input, CALL_INPUT);
  return input ?? ({} as CallInput<Name>);
}

function requireOperation(operation: string): void {
  if (Object.hasOwn(ENDPOINT, operation)) return;
  const hint = didYouMean(operation, Object.keys(ENDPOINT)) ?? 'operations are sendMessage, createSession and so on.';
  throw new TypeError(`'${operation}' is not an operation. ${capitalized(hint)}`);
}

async function* afterwards<Item>(items: AsyncIterable<Item>, done: () => void): AsyncGenerator<Item> {
  try {
    yield* items;
  } finally {
    done();
  }
}

/** Aborts `work` when the caller's signal does, or when the time is up. */
async function withinTime<Result>(
  transport: Transport,
  timeoutMs: number | undefined,
  signal: AbortSignal | undefined,
  work: (signal?: AbortSignal) => Promise<Result>,
): Promise<Result> {
  if (timeoutMs === undefined) return work(signal);
  const late = `The call did not finish within its ${timeoutMs} ms.`;
  return abortAfter(transport.clock, timeoutMs, () => timeout('unknown', late), work, signal);
}
