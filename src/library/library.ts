/**
 * Agents that answer messages and ask others, and a client of an agent messaging service for everything else.
 *
 * ```ts
 * const agent = createAgent({ handle: '@me.bot' });
 * agent.onMessage(async (message, session) => think(message.text, await session.history()));
 * await agent.run();
 * ```
 */
import { type Client, type ClientOptions, connect as connectWith } from '../client/client.js';
import type { ServiceAddresses } from '../client/http/address.js';
import { abortion, clientClosed } from '../client/http/request-error.js';
import { requireKnownOptions } from '../kit/suggest.js';
import { findIdentity, type IdentityOptions } from './identity.js';

export * from '../client/client.js';
export {
  type ClientCredentialOptions,
  createClientCredential,
  createTokenCredential,
} from '../client/credentials/credential.js';
export { createTransport, proxyFromEnvironment } from '../client/http/transport.js';
export { systemClock } from '../kit/clock.js';
export type { Operation } from '../wire/endpoint.js';
export type { ErrorCode } from '../wire/error.js';
export { type EventType, isEvent, isMessageEvent } from '../wire/event.js';
export type { Relation } from '../wire/relation.js';
export type { AgentAnswer as AgentRecord } from '../wire/schemas/agent.js';
export type { Attachment } from '../wire/schemas/attachment.js';
export type { AnswerOf as ReplyOf } from '../wire/schemas/endpoint.js';
export type { EventEnvelope, EventPayload, TypedEvent } from '../wire/schemas/event.js';
export type { Message } from '../wire/schemas/message.js';
export type { Content, Part } from '../wire/schemas/requests.js';
export type { Session } from '../wire/schemas/session.js';
export * from './create-agent.js';
export type { IdentityOptions } from './identity.js';

/** Options of {@link connect} without credentials of your own. */
export interface FoundClientOptions extends IdentityOptions, Pick<ClientOptions, 'retries' | 'timeoutMs'> {
  readonly service?: undefined;
  readonly credential?: undefined;
}

const OPTIONS: Record<keyof Required<ClientOptions & FoundClientOptions>, true> = {
  ...{ service: true, credential: true, handle: true, profile: true },
  ...{ transport: true, retries: true, timeoutMs: true, random: true },
};
const ADDRESSES: Record<keyof Required<ServiceAddresses>, true> = { baseUrl: true, authUrl: true, wsUrl: true };

/**
 * Creates a client. Without a service and a credential, it finds both as `asp` does, at its first call.
 * @throws RequestError `ASP_INSECURE_ADDRESS`
 */
export function connect(options: ClientOptions | FoundClientOptions = {}): Client {
  requireKnownOptions('connect', options, OPTIONS);
  if (options.service !== undefined) requireKnownOptions('The service of connect', options.service, ADDRESSES);
  if (options.service !== undefined && options.credential !== undefined) return connectWith(options);
  if (options.service !== undefined || options.credential !== undefined)
    throw new TypeError('connect needs both a service and a credential, or neither: then it uses those of asp.');
  const life = new AbortController();
  let identity: ReturnType<typeof findIdentity> | undefined;
  const open = async (): Promise<Client> => {
    if (life.signal.aborted) throw abortion(life.signal, 'not_applied');
    identity ??= findIdentity(options, life.signal);
    return (await identity).client();
  };
  const close = async (): Promise<void> => {
    life.abort(clientClosed());
    await (await identity?.catch(() => undefined))?.close();
  };
  return {
    call: async (operation, ...input) => (await open()).call(operation, ...input),
    async *pages(operation, ...input) {
      yield* (await open()).pages(operation, ...input);
    },
    upload: async (file, supplied) => (await open()).upload(file, supplied),
    download: async (attachmentId, supplied) => (await open()).download(attachmentId, supplied),
    raw: async (request) => (await open()).raw(request),
    async *tail(supplied) {
      yield* (await open()).tail(supplied);
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}
