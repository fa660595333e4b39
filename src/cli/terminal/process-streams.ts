import { fstatSync, readdirSync, readFileSync, readlinkSync, writeSync } from 'node:fs';
import type { ReadStream, WriteStream } from 'node:tty';
import { codeOf } from '../../kit/format.js';
import { CliError } from '../errors.js';
import { type OutputStream, readerGone, type Streams } from './streams.js';

const STDOUT = 1;
const STDERR = 2;
const WIDTH_UNKNOWN = 80;
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
    pipe = fstatSync(STDOUT).isFIFO() ? readlinkSync(`/proc/self/fd/${STDOUT}`) : undefined;
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

/** Error codes of writing to a pipe or socket without a reader; `EOF` is the one on Windows. */
const READER_GONE = new Set(['EPIPE', 'ECONNRESET', 'EOF', 'ERR_STREAM_DESTROYED']);

/** Why a write failed: the reader left, or the output could not be stored. */
function describeWriteError(error: Error): Error {
  if (READER_GONE.has(codeOf(error))) return readerGone(error);
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

/**
 * Appends to a file, all of it or with an error. If a full disk took the beginning of a line, the next one starts on a new
 * line. `write` takes some bytes from a position; if it returns their count at once, everything is written at once.
 */
export function createAppender(
  write: (bytes: Uint8Array, at: number) => number | Promise<number>,
): (data: string | Uint8Array) => Promise<void> {
  let isTorn = false;
  return async (data) => {
    const given = typeof data === 'string' ? Buffer.from(data) : data;
    const bytes = isTorn ? Buffer.concat([Buffer.from('\n'), given]) : given;
    let at = 0;
    try {
      while (at < bytes.length) {
        const count = write(bytes, at);
        at += typeof count === 'number' ? count : await count;
      }
      isTorn = false;
    } catch (error) {
      if (at > 0) isTorn = bytes[at - 1] !== LINE_FEED;
      throw error;
    }
  };
}

const LINE_FEED = 0x0a;

const appendAtOnce = (descriptor: number) => createAppender((bytes, at) => writeSync(descriptor, bytes, at));

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
  const append = appendAtOnce(descriptor);
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
        if (isStored) append(data).then(() => settle(), settle);
        else stream.write(data, settle);
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

/** A log that outlives a full disk: what cannot be stored is lost, and there is nowhere else to say so. */
function storedStderr(): OutputStream {
  const append = appendAtOnce(STDERR);
  return {
    isTerminal: false,
    isFile: true,
    columns: WIDTH_UNKNOWN,
    isAbandoned: () => false,
    write: (data) => append(data).catch(() => {}),
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
