import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

import { beatEvery } from '../../kit/beat.js';
import type { Clock } from '../../kit/clock.js';
import { ServiceError } from '../service-error.js';
import { answerOf } from './error-answer.js';
import { writeRawAnswer } from './raw-answer.js';

const LOOK_MS = 5_000;
/** What a body must bring between two looks: 1 KiB a second. */
const BODY_PROGRESS_BYTES = 5 * 1024;
const STALLED_LOOKS_MAX = 30_000 / LOOK_MS;

/** A request and its answer, from its first hook until its connection is done with it. */
interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly onDone: (() => void)[];
  /** At the last look: what had come in, if its sender was then waited for; and what had gone out. */
  bytesRead: number | undefined;
  bytesWritten: number;
  /** How many looks in a row have found its answer where it was. */
  stalledLooks: number;
}

interface Connection {
  readonly exchanges: Map<ServerResponse, Exchange>;
  readonly onClose: () => void;
}

/**
 * All requests in work, by connection. It ends those whose peer neither sends nor reads: a body that brings less than 1 KiB a
 * second, and an answer of which nothing has moved for 30 seconds. Both would hold memory for as long as the peer likes.
 */
export interface Exchanges {
  begin(request: IncomingMessage, response: ServerResponse): void;
  /** Runs `listener` once the answer has gone out whole, or never will. */
  whenDone(response: ServerResponse, listener: () => void): void;
  on(socket: unknown): readonly ServerResponse[];
  /** Resolves when no request of a connection is in work. */
  whenFree(socket: Duplex): Promise<void>;
  isDraining(): boolean;
  /** From now on `isDraining`; resolves when no request is in work any more. */
  drain(): Promise<void>;
}

export function createExchanges(clock: Clock): Exchanges {
  const connections = new Map<unknown, Connection>();
  let stopLooking: (() => void) | undefined;
  let finish: (() => void) | undefined;

  const end = (socket: Socket, response: ServerResponse): void => {
    const connection = connections.get(socket);
    const exchange = connection?.exchanges.get(response);
    if (connection === undefined || exchange === undefined) return;
    connection.exchanges.delete(response);
    for (const listener of exchange.onDone) listener();
    if (connection.exchanges.size > 0) return;
    connections.delete(socket);
    socket.off('close', connection.onClose);
    if (connections.size > 0) return;
    stopLooking?.();
    stopLooking = undefined;
    finish?.();
  };
  const open = (socket: Socket): Connection => {
    const exchanges: Connection['exchanges'] = new Map();
    // Of several answers on one connection only the first learns that the connection is gone.
    const onClose = (): void => {
      for (const response of [...exchanges.keys()]) end(socket, response);
    };
    socket.once('close', onClose);
    const connection = { exchanges, onClose };
    connections.set(socket, connection);
    return connection;
  };
  const look = (): void => {
    for (const { exchanges } of connections.values())
      for (const exchange of exchanges.values()) endIfStalled(exchange, exchanges.size === 1);
  };
  const on = (socket: unknown): ServerResponse[] => [...(connections.get(socket)?.exchanges.keys() ?? [])];

  return {
    begin(request, response) {
      const { socket } = request;
      const { exchanges } = connections.get(socket) ?? open(socket);
      exchanges.set(response, {
        request,
        response,
        onDone: [],
        bytesRead: undefined,
        bytesWritten: 0,
        stalledLooks: 0,
      });
      response.once('close', () => end(socket, response));
      stopLooking ??= beatEvery(clock, LOOK_MS, look);
    },
    whenDone(response, listener) {
      const exchange = connections.get(response.req.socket)?.exchanges.get(response);
      if (exchange === undefined) listener();
      else exchange.onDone.push(listener);
    },
    on,
    async whenFree(socket) {
      await Promise.all(on(socket).map((response) => new Promise((resolve) => response.once('close', resolve))));
    },
    isDraining: () => finish !== undefined,
    drain: () =>
      new Promise((resolve) => {
        finish = resolve;
        if (connections.size === 0) resolve();
      }),
  };
}

/** `isAlone`: no other answer is on its way over the connection, so that ours would not be taken for that one. */
function endIfStalled(exchange: Exchange, isAlone: boolean): void {
  const { request, response } = exchange;
  const { socket } = request;
  const isSenderAwaited = !request.complete && request.readableFlowing === true && request.readableLength === 0;
  const wasAwaitedFrom = exchange.bytesRead;
  exchange.bytesRead = isSenderAwaited ? socket.bytesRead : undefined;
  if (isSenderAwaited && wasAwaitedFrom !== undefined && socket.bytesRead - wasAwaitedFrom < BODY_PROGRESS_BYTES) {
    if (response.headersSent || !isAlone) socket.destroy();
    else writeRawAnswer(socket, answerOf(new ServiceError('VALIDATION_ERROR', TOO_SLOW, { status: 408 })));
    return;
  }
  const isUnread = socket.writableLength > 0 && socket.bytesWritten === exchange.bytesWritten;
  exchange.bytesWritten = socket.bytesWritten;
  exchange.stalledLooks = isUnread ? exchange.stalledLooks + 1 : 0;
  if (exchange.stalledLooks >= STALLED_LOOKS_MAX) socket.destroy();
}

const TOO_SLOW = 'The body came too slowly.';
