import { fstatSync, writeSync } from 'node:fs';
import type { ReadStream, WriteStream } from 'node:tty';

import { CliError } from '../errors.js';
import { watchPipeReaders } from './pipe-readers.js';
import { type OutputStream, ReaderGoneError, type Streams } from './streams.js';

const STDOUT = 1;
const STDERR = 2;
const WIDTH_UNKNOWN = 80;

/** What writing to a pipe or socket fails with once nobody reads it; `EOF` is what Windows says. */
const READER_GONE = new Set(['EPIPE', 'ECONNRESET', 'EOF', 'ERR_STREAM_DESTROYED']);

/** Why a write failed: the reader left, or the output could not be stored. */
function describeWriteError(error: Error): ReaderGoneError | CliError {
  if ('code' in error && READER_GONE.has(String(error.code)))
    return new ReaderGoneError('the reader is gone', { cause: error });
  return new CliError('ASP_OUTPUT', {
    message: 'Standard output could not be written.',
    why: `the system says: ${error.message}.`,
    cause: error,
  });
}

/** Node.js writes to a file once and ignores how much of it was taken: on a full disk the rest is lost without an error. */
function isFile(descriptor: number): boolean {
  try {
    const stats = fstatSync(descriptor);
    return stats.isFile() || stats.isCharacterDevice() || stats.isBlockDevice();
  } catch {
    return false;
  }
}

function writeToFile(descriptor: number, data: string | Uint8Array): void {
  const bytes = typeof data === 'string' ? Buffer.from(data) : data;
  for (let at = 0; at < bytes.byteLength; ) at += writeSync(descriptor, bytes, at);
}

function outputOf(
  stream: WriteStream,
  descriptor: number,
  onFailure: (error: Error) => void,
  isAbandoned: () => boolean = () => false,
): OutputStream {
  let failure: Error | undefined;
  stream.on('error', (error) => {
    failure ??= describeWriteError(error);
    onFailure(failure);
  });
  const isStored = stream.isTTY !== true && isFile(descriptor);
  return {
    isTerminal: stream.isTTY === true,
    get columns() {
      return Number.isInteger(stream.columns) && stream.columns > 0 ? stream.columns : WIDTH_UNKNOWN;
    },
    isAbandoned: () => failure !== undefined || isAbandoned(),
    write: (data) =>
      new Promise((resolve, reject) => {
        if (failure !== undefined) return reject(failure);
        if (stream.destroyed) return reject(new ReaderGoneError('the reader is gone'));
        const settle = (error?: Error | null): void => {
          if (error !== null && error !== undefined) failure ??= describeWriteError(error);
          if (failure === undefined) resolve();
          else reject(failure);
        };
        if (!isStored) return stream.write(data, settle);
        try {
          writeToFile(descriptor, data);
          settle();
        } catch (error) {
          settle(error instanceof Error ? error : new Error(String(error)));
        }
      }),
  };
}

/** The streams of this process. `onFailure` gets why stdout can no longer be written, a {@link ReaderGoneError} mostly. */
export function processStreams(process: NodeJS.Process, onFailure: (error: Error) => void): Streams {
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
      STDOUT,
      onFailure,
      lazily(() => watchPipeReaders(process.pid)),
    ),
    stderr: quietly(outputOf(stderr, STDERR, () => {})),
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
