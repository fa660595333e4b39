import type { WebSocket } from 'ws';

import { SOCKET_BUFFER_MAX_BYTES } from '../../wire/limit.js';

/** Sends over a `ws` socket, and never lets more than the bound wait to be taken by the other side. */
export interface BoundedSender {
  /** False, and nothing sent: the buffer has no room for this frame now. One frame alone always fits. */
  send(frame: string): boolean;
  /** Resolves when a frame of this many bytes fits, or the socket is closed. */
  hasRoom(bytes: number): Promise<void>;
  /** To be called when the socket is closed. */
  release(): void;
}

export function createBoundedSender(ws: WebSocket): BoundedSender {
  const waiting: { bytes: number; resume: () => void }[] = [];
  const isOpen = (): boolean => ws.readyState === ws.OPEN;
  const fits = (bytes: number): boolean =>
    ws.bufferedAmount === 0 || ws.bufferedAmount + bytes <= SOCKET_BUFFER_MAX_BYTES;
  const wake = (): void => {
    for (const waiter of waiting.splice(0))
      if (isOpen() && !fits(waiter.bytes)) waiting.push(waiter);
      else waiter.resume();
  };
  return {
    send(frame) {
      if (!isOpen() || !fits(Buffer.byteLength(frame))) return false;
      ws.send(frame, wake);
      return true;
    },
    hasRoom(bytes) {
      if (!isOpen() || fits(bytes)) return Promise.resolve();
      return new Promise((resume) => waiting.push({ bytes, resume }));
    },
    release: wake,
  };
}
