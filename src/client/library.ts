/**
 * A client of an agent messaging service: sessions, messages, agents, attachments and live events.
 *
 * ```ts
 * const service = { baseUrl: 'http://127.0.0.1:8744/v1' };
 * const client = connect({ service, credential: createClientCredential({ service, clientId, clientSecret }) });
 * const { reply } = await client.call('createSession', { body: { invite: ['@alice.bot'] } });
 * for await (const item of client.tail({ sessions: [{ sessionId: reply.session_id }] }))
 *   if (item.kind === 'event' && isMessageEvent(item.event)) console.log(item.event.payload.content);
 * ```
 */
export { systemClock } from '../kit/clock.js';
export type { Operation } from '../wire/endpoint.js';
export type { ErrorCode } from '../wire/error.js';
export { type EventType, isMessageEvent } from '../wire/event.js';
export type { Agent } from '../wire/schemas/agent.js';
export type { Attachment } from '../wire/schemas/attachment.js';
export type { ReplyOf } from '../wire/schemas/endpoint.js';
export type { EventEnvelope, EventPayload } from '../wire/schemas/event.js';
export type { Message } from '../wire/schemas/message.js';
export type { Content } from '../wire/schemas/requests.js';
export type { Session } from '../wire/schemas/session.js';
export * from './client.js';
export {
  type ClientCredentialOptions,
  createClientCredential,
  createTokenCredential,
} from './credentials/credential.js';
export { createTransport, proxyFromEnvironment } from './http/transport.js';
