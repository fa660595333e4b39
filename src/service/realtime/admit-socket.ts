import type { IncomingMessage } from 'node:http';

import { SOCKETS_PER_AGENT_MAX } from '../../wire/limit.js';
import { SOCKET_PATH } from '../../wire/realtime.js';
import type { TokenVerifier, VerifiedToken } from '../access-token/verify.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { createSemaphore } from '../limits/semaphore.js';
import { readBearer, requireScopes } from '../rest/admit.js';
import type { HostGuard } from '../rest/host-guard.js';
import { BASE_PATH } from '../rest/register-rest.js';
import { ServiceError } from '../service-error.js';

/** Where the socket is offered (wire: Aliases). */
const PATHS: ReadonlySet<string> = new Set([SOCKET_PATH, '/', `${BASE_PATH}${SOCKET_PATH}`]);

/** 16 bytes in base64 (RFC 6455 §4.1). */
const KEY = /^[+/0-9A-Za-z]{22}==$/;

/** One of the places that an agent's sockets take. */
export interface Place {
  readonly actor: AgentActor & VerifiedToken;
  /** To be called once the socket is closed, or never came to be. */
  release(): void;
}

/** Decides on handshakes. What is refused is refused before the protocol is switched, as an error of the API. */
export function createDoor(context: ServiceContext, verifier: TokenVerifier, guardHost: HostGuard) {
  const sockets = createSemaphore({
    max: SOCKETS_PER_AGENT_MAX,
    waitingMax: 0,
    refusal: 'This agent has too many sockets open.',
  });
  return async (request: IncomingMessage): Promise<Place> => {
    guardHost(request);
    requireHandshake(request);
    const actor = await verifier.verify(readBearer(request.headers.authorization), context.settings.addresses.wsUrl);
    if (actor.kind !== 'agent') throw new ServiceError('FORBIDDEN');
    requireScopes(['realtime:read'], actor);
    await context.limits.take('general', actor.agentId);
    return { actor, release: await sockets.acquire(actor.agentId) };
  };
}

/** An Origin does not matter: no web page can set the Authorization header of a handshake, and some programs send one. */
function requireHandshake({ method, url = '', headers }: IncomingMessage): void {
  const [path = ''] = url.split('?', 1);
  if (!PATHS.has(path)) throw new ServiceError('NOT_FOUND');
  const isHandshake =
    method === 'GET' &&
    headers.upgrade?.toLowerCase() === 'websocket' &&
    KEY.test(headers['sec-websocket-key'] ?? '') &&
    headers['sec-websocket-version'] === '13';
  if (!isHandshake)
    throw new ServiceError('VALIDATION_ERROR', 'Only a WebSocket handshake, version 13, is answered here.');
}
