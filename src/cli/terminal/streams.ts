import { codeOf } from '../../kit/format.js';

/** A writable stream. `write` resolves when the data has been handed over: awaiting it is backpressure. */
export interface OutputStream {
  readonly isTerminal: boolean;
  /** A disk can become full in the middle of a write. */
  readonly isFile: boolean;
  /** Width in columns; 80 if unknown. */
  readonly columns: number;
  write(data: string | Uint8Array): Promise<void>;
  /** Whether it is known, without writing, that the reader is gone. */
  isAbandoned(): boolean;
}

interface InputStream {
  readonly isTerminal: boolean;
  /** The bytes as they arrive, until the end or until the signal, after which nothing more can be read. */
  read(signal?: AbortSignal): AsyncIterable<Uint8Array>;
}

/** The three streams of a process, as one value. */
export interface Streams {
  readonly stdin: InputStream;
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
}

const READER_GONE = 'READER_GONE';

/** The reader of the output left. Not a failure: it got as much as it wanted. */
export function readerGone(cause?: unknown): Error {
  return Object.assign(new Error('the reader is gone', { cause }), { code: READER_GONE });
}

/** Whether a write failed because the reader left. */
export function isReaderGone(error: unknown): boolean {
  return codeOf(error) === READER_GONE;
}

/** Streams that capture what is written, for tests. */
export interface CapturedStreams extends Streams {
  readonly out: () => string;
  readonly err: () => string;
}

export function captureStreams(
  options: { stdin?: string | Uint8Array | 'terminal'; isTerminal?: boolean; columns?: number } = {},
): CapturedStreams {
  const { stdin = 'terminal', isTerminal = false, columns = 80 } = options;
  const written = { out: '', err: '' };
  const capture = (name: 'out' | 'err'): OutputStream => ({
    isTerminal,
    isFile: false,
    columns,
    isAbandoned: () => false,
    write: async (data) => {
      written[name] += typeof data === 'string' ? data : Buffer.from(data).toString('utf8');
    },
  });
  return {
    stdin: {
      isTerminal: stdin === 'terminal',
      async *read() {
        if (stdin !== 'terminal') yield typeof stdin === 'string' ? Buffer.from(stdin) : stdin;
      },
    },
    stdout: capture('out'),
    stderr: capture('err'),
    out: () => written.out,
    err: () => written.err,
  };
}
