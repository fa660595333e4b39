import { fstatSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';

import { type Overview, overview } from './cli/help.js';
import { isColored, loadStyle } from './cli/terminal/style.js';
import { VERSION } from './cli/version.js';
import { systemClock, wait } from './kit/clock.js';
import { textWidth } from './kit/wrap.js';

const STDOUT = 1;
const WIDTH_UNKNOWN = 80;
/** How long to wait for the reader of a full pipe that does not block. */
const FULL_PIPE_MS = 10;

/**
 * `asp` and `asp --help`: the process. It loads no definition of a command, only the names that the build collected.
 * Resolves to false if stdout does not accept the text; the program then prints it and reports why it can't.
 */
export async function printOverview(): Promise<boolean> {
  try {
    const known = JSON.parse(readFileSync(join(__dirname, 'known-words.json'), 'utf8')) as Overview;
    // Asking process.stdout costs milliseconds, and a pipe has no columns.
    const terminal = fstatSync(STDOUT).isCharacterDevice() && process.stdout.isTTY ? process.stdout : undefined;
    const style = await loadStyle(isColored('auto', process.env, terminal !== undefined));
    const width = textWidth({ columns: terminal?.columns || WIDTH_UNKNOWN });
    let rest = Buffer.from(overview(known, VERSION, style, width));
    while (rest.length > 0) rest = rest.subarray(await write(rest));
    return true;
  } catch {
    return false;
  }
}

async function write(bytes: Buffer): Promise<number> {
  try {
    return writeSync(STDOUT, bytes);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EAGAIN')) throw error;
    await wait(systemClock, FULL_PIPE_MS);
    return 0;
  }
}
