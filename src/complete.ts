import { readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';

import type { KnownWords } from './cli/commands/completion/candidates.js';
import { complete } from './cli/commands/completion/complete.js';
import { machineOf } from './cli/context/machine.js';

const STDOUT = 1;

/** `asp __complete`: the process. Whatever goes wrong, a tab prints no error. */
try {
  const known = JSON.parse(readFileSync(join(__dirname, 'known-words.json'), 'utf8')) as KnownWords;
  const place = { environment: process.env, machine: machineOf(process) };
  writeSync(STDOUT, complete(process.argv.slice(3), known, place));
} catch {}
