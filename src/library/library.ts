/**
 * Agents that answer messages and ask others, and a client of an agent messaging service for everything else.
 *
 * ```ts
 * const agent = createAgent({ handle: '@me.bot' });
 * agent.onMessage(async (message, session) => think(message.text, await session.history()));
 * await agent.run();
 * ```
 */

export type { Relation } from '../agent/relation.js';
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
export type { AgentAnswer as AgentRecord } from '../wire/schemas/agent.js';
export type { Attachment } from '../wire/schemas/attachment.js';
export type { AnswerOf as ReplyOf } from '../wire/schemas/endpoint.js';
export type { EventEnvelope, EventPayload, TypedEvent } from '../wire/schemas/event.js';
export type { Message } from '../wire/schemas/message.js';
export type { Content, Part } from '../wire/schemas/requests.js';
export type { Session } from '../wire/schemas/session.js';
export { connect, type FoundClientOptions } from './connect.js';
export * from './create-agent.js';
export type { IdentityOptions } from './identity.js';
