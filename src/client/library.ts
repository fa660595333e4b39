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
export type { Agent } from '../wire/agent.js';
export type { Attachment } from '../wire/attachment.js';
export type { Operation, ReplyOf } from '../wire/endpoint.js';
export type { ErrorCode } from '../wire/error.js';
export { type EventEnvelope, type EventPayload, type EventType, isMessageEvent } from '../wire/event.js';
export type { Content, Message } from '../wire/message.js';
export type { Session } from '../wire/session.js';
export * from './client.js';
export { type ClientCredentialOptions, createClientCredential } from './credentials/client-credential.js';
export { createTokenCredential } from './credentials/token-credential.js';
export { createTransport, proxyFromEnvironment } from './http/transport.js';
