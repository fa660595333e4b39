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
