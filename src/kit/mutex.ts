/** Runs work one after the other, in the order of the calls; a failure is its caller's alone. */
export type Mutex = <T>(work: () => Promise<T>) => Promise<T>;

/** A lock in this process. The number of waiting calls is not limited; the caller must limit it. */
export function createMutex(): Mutex {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const turn = last.then(work);
    last = turn.catch(() => {});
    return turn;
  };
}
