import type { LockContext } from '../../client/credentials/process-lock.js';

/** Runs `work` while no other command changes this file: of two at once, neither undoes the other's change. */
export async function withFileLock<Result>(
  context: LockContext,
  path: string,
  work: () => Promise<Result>,
): Promise<Result> {
  const { withProcessLock } = await import('../../client/credentials/process-lock.js');
  let isStarted = false;
  const start = (): Promise<Result> => {
    isStarted = true;
    return work();
  };
  return withProcessLock(context, `file\n${path}`, start).catch((error: unknown) => {
    if (isStarted) throw error;
    // Without a lock, a change that another command may undo is better than none.
    return work();
  });
}
