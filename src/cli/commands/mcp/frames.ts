import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js';

import { toJsonLine } from '../../../kit/json-line.js';
import type { Context } from '../../context/context.js';

/** What of the package reads lines. */
interface LineReader {
  append(chunk: Buffer): void;
  readMessage(): JSONRPCMessage | null;
}

/** Messages of the protocol, a line each, on standard input and output. */
export interface Frames extends Transport {
  /** Resolves when standard input has ended, or `signal` was aborted. */
  readonly ended: Promise<void>;
}

/** Lines are escaped as all of ours are: a frame is one line for every reader, and what a peer wrote drives no terminal. */
export function createFrames({ streams, output }: Context, lines: LineReader, signal: AbortSignal): Frames {
  let resolveEnded = (): void => {};
  const ended = new Promise<void>((resolve) => {
    resolveEnded = resolve;
  });
  const takeLines = async (): Promise<void> => {
    for (;;) {
      try {
        const message = lines.readMessage();
        if (message === null) return;
        frames.onmessage?.(message);
      } catch {
        await output.note('A line on standard input is no message of the protocol; it was passed over.');
      }
    }
  };
  const readAll = async (): Promise<void> => {
    try {
      for await (const bytes of streams.stdin.read(signal)) {
        lines.append(Buffer.from(bytes));
        await takeLines();
      }
    } catch (error) {
      await output.note(`Standard input: ${error instanceof Error ? error.message : String(error)}`);
    } finally {
      resolveEnded();
    }
  };
  const frames: Frames = {
    ended,
    async start() {
      void readAll();
    },
    send: (message) => streams.stdout.write(`${toJsonLine(message)}\n`),
    async close() {
      frames.onclose?.();
    },
  };
  return frames;
}
