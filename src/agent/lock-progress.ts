import { resolve } from 'node:path';

import { RequestError } from '../client/client.js';
import { holdProcessLock } from '../client/credentials/process-lock.js';
import type { AgentContext } from './persist.js';

/**
 * Lets only one process at a time keep the progress of an agent: two would run the command twice for each message
 * (D-208). Returns undefined if another process has the lock; otherwise call the result at the end.
 */
export async function lockProgress(
  { output }: AgentContext,
  me: string,
  path: string,
): Promise<(() => void) | undefined> {
  try {
    return await holdProcessLock({}, `run\n${resolve(path)}`);
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    await output.note(`Cannot find out whether another process answers as ${me}: ${error.message}`);
    return () => {};
  }
}
