import type { OutputStream, Streams } from '../../src/cli/terminal/streams.js';

/** Streams that capture what is written. */
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
