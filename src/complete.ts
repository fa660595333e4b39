import { readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';

import type { Vocabulary } from './cli/commands/completion/candidates.js';
import { complete } from './cli/commands/completion/complete.js';
import { readMachine } from './cli/context/machine.js';

const STDOUT = 1;

/** `asp __complete`: the process. Whatever goes wrong, a tab prints no error. */
try {
  const known = JSON.parse(readFileSync(join(__dirname, 'known-words.json'), 'utf8')) as Vocabulary;
  const host = { environment: process.env, machine: readMachine(process) };
  writeSync(STDOUT, complete(process.argv.slice(3), known, host));
} catch {}
