import type { WebSocket } from 'ws';

/** Asks the other side's WebSocket layer to prove that it has read what was sent before (RFC 6455 §5.5.2, §5.5.3). */
export interface Proofs {
  /** True once it did, false when it never will. */
  ask(): Promise<boolean>;
  /** To be called when the socket is closed. */
  release(): void;
}

export function createProofs(ws: WebSocket): Proofs {
  const asked = new Map<string, (didArrive: boolean) => void>();
  let count = 0;
  ws.on('pong', (data) => {
    const payload = data.toString();
    asked.get(payload)?.(true);
    asked.delete(payload);
  });
  return {
    ask() {
      if (ws.readyState !== ws.OPEN) return Promise.resolve(false);
      count += 1;
      const payload = String(count);
      return new Promise((resolve) => {
        asked.set(payload, resolve);
        ws.ping(payload);
      });
    },
    release() {
      for (const settle of asked.values()) settle(false);
      asked.clear();
    },
  };
}
