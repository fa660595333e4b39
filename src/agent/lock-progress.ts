import { resolve } from 'node:path';

import { RequestError } from '../client/client.js';
import { holdProcessLock } from '../client/credentials/process-lock.js';
import type { AgentContext } from './persist.js';

/**
 * One process at a time keeps the progress of an agent: two would answer each message twice (D-208). Undefined: another one has
 * it. Otherwise call the result at the end.
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
