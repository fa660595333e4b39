import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import type { Home } from '../acceptance/program.js';
import type { Operator } from './actors.js';

/** Returns the operator of the service that runs in a home. */
export function operatorOf(home: Pick<Home, 'directory'>): Operator {
  const record = JSON.parse(readFileSync(join(home.directory, 'run/asp-cli/serve/default.json'), 'utf8')) as {
    operator_url: string;
    secret: string;
  };
  return { url: record.operator_url, secret: record.secret };
}
