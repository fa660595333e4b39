/** A stream that is written to. `write` resolves when the data has been handed over: awaiting it is backpressure. */
export interface OutputStream {
  readonly isTerminal: boolean;
  /** Width in columns; 80 where it is unknown. */
  readonly columns: number;
  write(data: string | Uint8Array): Promise<void>;
  /** Whether it is known, without writing, that nobody reads any more. */
  isAbandoned(): boolean;
}

export interface InputStream {
  readonly isTerminal: boolean;
  /** The bytes as they come, until the end or until the signal, after which nothing more can be read. */
  read(signal?: AbortSignal): AsyncIterable<Uint8Array>;
}

/** The three streams of a process, as one value. */
export interface Streams {
  readonly stdin: InputStream;
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
}

/** Whoever read our output is gone. It is no failure: what was asked for was delivered as far as it was wanted. */
export class ReaderGoneError extends Error {
  override readonly name = 'ReaderGoneError';
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
