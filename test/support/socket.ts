import { once } from 'node:events';

import { WebSocket } from 'ws';

import { type Answer, answerOf } from './http.js';
import { field } from './json.js';

/** A live socket that records frames and can wait for new ones. */
export interface LiveSocket {
  /** Every JSON frame so far, in order of arrival. */
  readonly frames: readonly unknown[];
  /** Returns the first matching frame, past or future. */
  mustReceive(what: string, fits: (frame: unknown) => boolean, deadlineMs?: number): Promise<unknown>;
  /** Returns the next event with this type and session. */
  mustReceiveEvent(type: string, sessionId: string): Promise<unknown>;
  /** Pings and waits for the pong, which arrives after everything the service sent earlier. */
  mustPing(): Promise<void>;
  /** Waits until the service closes the socket and returns the close code. */
  mustBeClosed(deadlineMs?: number): Promise<number>;
  send(text: string | Uint8Array): void;
  /** Sends a ping frame of the WebSocket protocol. */
  ping(): void;
  /** Stops reading, so that the service's buffer fills. */
  stopReading(): void;
  /** Resumes reading. */
  startReading(): void;
  readonly isOpen: boolean;
  close(): Promise<void>;
}

/** Opens a socket, or returns the HTTP answer that refused it. */
export function openSocket(url: string, headers: Readonly<Record<string, string>>): Promise<LiveSocket | Answer> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url, { headers, perMessageDeflate: false });
    const live = watch(socket);
    socket.once('open', () => resolve(live));
    socket.once('error', reject);
    socket.once('unexpected-response', (_request, message) => {
      const chunks: Buffer[] = [];
      message.on('data', (chunk: Buffer) => chunks.push(chunk));
      message.on('end', () => resolve(answerOf(message.statusCode ?? 0, message.headers, Buffer.concat(chunks))));
    });
  });
}

function watch(socket: WebSocket): LiveSocket {
  const frames: unknown[] = [];
  const closed = new Promise<number>((resolve) => socket.once('close', resolve));
  socket.on('message', (data) => frames.push(JSON.parse(String(data))));

  async function mustReceive(what: string, fits: (frame: unknown) => boolean, deadlineMs = 30_000): Promise<unknown> {
    const deadline = AbortSignal.timeout(deadlineMs);
    for (;;) {
      const found = frames.find(fits);
      if (found !== undefined) return found;
      await once(socket, 'message', { signal: deadline }).catch(() => {
        throw new Error(`not received: ${what}; received ${JSON.stringify(frames)}`);
      });
    }
  }

  return {
    frames,
    mustReceive,
    mustReceiveEvent: (type, sessionId) =>
      mustReceive(
        `${type} of ${sessionId}`,
        (frame) => field(frame, 'type') === type && field(frame, 'session_id') === sessionId,
      ),
    async mustPing() {
      const pongs = frames.filter((frame) => field(frame, 'type') === 'pong').length;
      socket.send('{"type":"ping"}');
      await mustReceive('pong', () => frames.filter((frame) => field(frame, 'type') === 'pong').length > pongs);
    },
    mustBeClosed: (deadlineMs = 30_000) => beforeDeadline(closed, deadlineMs, 'the socket is closed by the service'),
    send: (data) => socket.send(data),
    ping: () => socket.ping(() => {}),
    stopReading: () => socket.pause(),
    startReading: () => socket.resume(),
    get isOpen() {
      return socket.readyState === WebSocket.OPEN;
    },
    async close() {
      if (socket.readyState === WebSocket.CLOSED) return;
      socket.terminate();
      await closed;
    },
  };
}

async function beforeDeadline<T>(promise: Promise<T>, deadlineMs: number, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not in ${deadlineMs} ms: ${what}`)), deadlineMs);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
