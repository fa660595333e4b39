import { fstatSync, readdirSync, readFileSync, readlinkSync, writeSync } from 'node:fs';
import type { ReadStream, WriteStream } from 'node:tty';
import { CliError } from '../errors.js';
import { type OutputStream, readerGone, type Streams } from './streams.js';

const STDOUT_FD = 1;
const WRITE_ONLY = 0o1;
const ACCESS_MODE = 0o3;

/**
 * Finds out whether the readers of the pipe on stdout are gone. A writer learns that only from its next write, and a
 * quiet tail has none. Linux shows which processes have a pipe open (proc(5)); elsewhere, and if a reader is hidden
 * from us, the answer is false.
 */
function watchPipeReaders(ownPid: number): () => boolean {
  let pipe: string | undefined;
  let readers: readonly string[] | undefined;
  try {
    pipe = fstatSync(STDOUT_FD).isFIFO() ? readlinkSync(`/proc/self/fd/${STDOUT_FD}`) : undefined;
  } catch {
    pipe = undefined;
  }
  return () => {
    if (pipe === undefined || !pipe.startsWith('pipe:')) return false;
    const link = pipe;
    const isReading = (pid: string): boolean => hasOpenForReading(pid, link);
    if (readers?.some(isReading) === true) return false;
    const found = processes(ownPid).filter(isReading);
    // A reader can only disappear after it was seen once: a reader of another user is never visible.
    const isGone = readers !== undefined && readers.length > 0 && found.length === 0;
    if (readers === undefined && found.length === 0) pipe = undefined;
    readers = found;
    return isGone;
  };
}

function processes(ownPid: number): string[] {
  try {
    return readdirSync('/proc').filter((name) => /^\d+$/.test(name) && name !== String(ownPid));
  } catch {
    return [];
  }
}

function hasOpenForReading(pid: string, pipe: string): boolean {
  try {
    return readdirSync(`/proc/${pid}/fd`).some((descriptor) => {
      if (readlinkSync(`/proc/${pid}/fd/${descriptor}`) !== pipe) return false;
      const flags = /^flags:\s*0*([0-7]+)/m.exec(readFileSync(`/proc/${pid}/fdinfo/${descriptor}`, 'utf8'))?.[1];
      return (Number.parseInt(flags ?? '', 8) & ACCESS_MODE) !== WRITE_ONLY;
    });
  } catch {
    return false;
  }
}

const STDOUT = 1;
const STDERR = 2;
const WIDTH_UNKNOWN = 80;

/** Error codes of writing to a pipe or socket without a reader; `EOF` is the one on Windows. */
const READER_GONE = new Set(['EPIPE', 'ECONNRESET', 'EOF', 'ERR_STREAM_DESTROYED']);

/** Why a write failed: the reader left, or the output could not be stored. */
function describeWriteError(error: Error): Error {
  if ('code' in error && READER_GONE.has(String(error.code))) return readerGone(error);
  return new CliError('ASP_OUTPUT', {
    message: 'Could not write to standard output.',
    why: `the system says: ${error.message}.`,
    outcome: 'unknown',
    cause: error,
  });
}

/**
 * Node.js writes to a file once and ignores how much of it was written: on a full disk the rest is lost without an
 * error.
 */
function isFile(descriptor: number): boolean {
  try {
    const stats = fstatSync(descriptor);
    return stats.isFile() || stats.isCharacterDevice() || stats.isBlockDevice();
  } catch {
    return false;
  }
}

/** Writes all of it, or throws; then `onTorn` is called if the file ends in a part of it. */
function writeToFile(descriptor: number, data: string | Uint8Array, onTorn: () => void = () => {}): void {
  const bytes = typeof data === 'string' ? Buffer.from(data) : data;
  let at = 0;
  try {
    while (at < bytes.byteLength) at += writeSync(descriptor, bytes, at);
  } catch (error) {
    if (at > 0) onTorn();
    throw error;
  }
}

function createOutput(
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
    isFile: isStored,
    get columns() {
      return Number.isInteger(stream.columns) && stream.columns > 0 ? stream.columns : WIDTH_UNKNOWN;
    },
    isAbandoned: () => failure !== undefined || isAbandoned(),
    write: (data) =>
      new Promise((resolve, reject) => {
        if (failure !== undefined) return reject(failure);
        if (stream.destroyed) return reject(readerGone());
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

/** The streams of this process. `onFailure` gets why stdout can no longer be written, mostly {@link readerGone}. */
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
    stdout: createOutput(
      stdout,
      STDOUT,
      onFailure,
      lazily(() => watchPipeReaders(process.pid)),
    ),
    stderr: isFile(STDERR) && !stderr.isTTY ? storedStderr() : quietly(createOutput(stderr, STDERR, () => {})),
  };
}

/** A log that outlives a full disk: what cannot be stored is lost, and later lines begin a new line. */
function storedStderr(): OutputStream {
  let isTorn = false;
  return {
    isTerminal: false,
    isFile: true,
    columns: WIDTH_UNKNOWN,
    isAbandoned: () => false,
    async write(data) {
      const noteTorn = (): void => {
        isTorn = true;
      };
      try {
        if (isTorn) writeToFile(STDERR, '\n');
        isTorn = false;
        writeToFile(STDERR, data, noteTorn);
      } catch {
        // There is nowhere else to say so.
      }
    },
  };
}

/** A closed stderr never ends a command: its messages are lost. */
function quietly(stream: OutputStream): OutputStream {
  return {
    isTerminal: stream.isTerminal,
    isFile: stream.isFile,
    get columns() {
      return stream.columns;
    },
    isAbandoned: () => stream.isAbandoned(),
    write: (text) => stream.write(text).catch(() => {}),
  };
}

/** The watch starts on first use: most commands never need it. */
function lazily(begin: () => () => boolean): () => boolean {
  let watch: (() => boolean) | undefined;
  return () => {
    watch ??= begin();
    return watch();
  };
}
