/** Values that were read are dropped from memory this many at a time. */
const COMPACT_AT = 1024;

/**
 * Values pushed at one end and iterated at the other, in order. It ends once `end` was called and everything is read;
 * after `fail`, it throws the error once the values before it are read. Breaking out of the loop ends it.
 */
export interface AsyncQueue<Value> extends AsyncIterable<Value> {
  push(value: Value): void;
  end(): void;
  fail(error: unknown): void;
  /** The number of values waiting to be read. */
  readonly size: number;
}

/**
 * An empty queue. `onDrain` is called whenever the reader has taken the last waiting value, `onDone` whenever it comes
 * back after a value.
 */
export function createAsyncQueue<Value>(
  onDrain: () => void = () => {},
  onDone: () => void = () => {},
): AsyncQueue<Value> {
  const values: Value[] = [];
  let state: { kind: 'open' } | { kind: 'ended' } | { kind: 'failed'; error: unknown } = { kind: 'open' };
  let wake = (): void => {};
  let head = 0;

  const settle = (next: typeof state): void => {
    if (state.kind === 'open') state = next;
    wake();
  };

  async function* read(): AsyncGenerator<Value> {
    try {
      while (true) {
        while (head < values.length) {
          const value = values[head] as Value;
          head += 1;
          if (head === values.length) {
            values.length = 0;
            head = 0;
            onDrain();
          } else if (head >= COMPACT_AT) {
            values.splice(0, head);
            head = 0;
          }
          yield value;
          onDone();
        }
        if (state.kind === 'failed') throw state.error;
        if (state.kind === 'ended') return;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    } finally {
      settle({ kind: 'ended' });
      values.length = 0;
      head = 0;
    }
  }

  const iterator = read();
  return {
    push(value) {
      if (state.kind !== 'open') return;
      values.push(value);
      wake();
    },
    end: () => settle({ kind: 'ended' }),
    fail: (error) => settle({ kind: 'failed', error }),
    get size() {
      return values.length - head;
    },
    [Symbol.asyncIterator]: () => iterator,
  };
}
