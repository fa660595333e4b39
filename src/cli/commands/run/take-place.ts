import { resolve } from 'node:path';

import { holdProcessLock } from '../../../client/credentials/process-lock.js';
import { RequestError } from '../../../client/http/request-error.js';
import type { Context } from '../../context/context.js';
import { CliError } from '../../terminal/cli-error.js';

/** One process at a time keeps how far an agent has got: two would run its command twice for each message (D-208). */
export async function takePlace(context: Context, me: string, path: string): Promise<(() => void) | undefined> {
  const place = resolve(context.machine.workingDirectory, path);
  let release: (() => void) | undefined;
  try {
    release = await holdProcessLock({}, `run\n${place}`);
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    await context.output.note(`Whether another asp run answers as ${me} is not known: ${error.message}`);
    return undefined;
  }
  if (release !== undefined) return release;
  throw new CliError('ASP_ALREADY_RUNNING', {
    message: `Another asp run answers as ${me} already.`,
    why: `both would keep how far they got in ${path}; one that answers something else takes --cursor-file.`,
  });
}
