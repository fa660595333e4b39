import type { ReadStream, WriteStream } from 'node:tty';

import { watchPipeReaders } from './pipe-readers.js';
import { type OutputStream, ReaderGoneError, type Streams } from './streams.js';

const WIDTH_UNKNOWN = 80;

function outputOf(stream: WriteStream, onGone: () => void, isAbandoned = () => false): OutputStream {
  let isGone = false;
  stream.on('error', () => {
    isGone = true;
    onGone();
  });
  return {
    isTerminal: stream.isTTY === true,
    get columns() {
      return Number.isInteger(stream.columns) && stream.columns > 0 ? stream.columns : WIDTH_UNKNOWN;
    },
    isAbandoned: () => isGone || isAbandoned(),
    write: (text) =>
      new Promise((resolve, reject) => {
        if (isGone || stream.destroyed) return reject(new ReaderGoneError('the reader is gone'));
        stream.write(text, (error) => {
          if (error === null || error === undefined) resolve();
          else reject(new ReaderGoneError('the reader is gone', { cause: error }));
        });
      }),
  };
}

/** The streams of this process. `onReaderGone` is called once nobody reads stdout any more. */
export function processStreams(process: NodeJS.Process, onReaderGone: () => void): Streams {
  const { stdout, stderr } = process;
  return {
    stdin: {
      get isTerminal() {
        return process.stdin.isTTY === true;
      },
      async *read(signal) {
        const stdin: ReadStream = process.stdin;
        const onAbort = (): void => void stdin.destroy();
        signal?.addEventListener('abort', onAbort, { once: true });
        try {
          for await (const bytes of stdin) yield bytes as Uint8Array;
        } catch (error) {
          if (signal?.aborted !== true) throw error;
        } finally {
          signal?.removeEventListener('abort', onAbort);
        }
      },
    },
    stdout: outputOf(
      stdout,
      onReaderGone,
      lazily(() => watchPipeReaders(process.pid)),
    ),
    stderr: quietly(outputOf(stderr, () => {})),
  };
}

/** A closed stderr never ends a command: what it would have said is lost. */
function quietly(stream: OutputStream): OutputStream {
  return {
    isTerminal: stream.isTerminal,
    get columns() {
      return stream.columns;
    },
    isAbandoned: () => stream.isAbandoned(),
    write: (text) => stream.write(text).catch(() => {}),
  };
}

/** The watch begins when it is first asked: most commands never do. */
function lazily(begin: () => () => boolean): () => boolean {
  let watch: (() => boolean) | undefined;
  return () => {
    watch ??= begin();
    return watch();
  };
}
