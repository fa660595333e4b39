import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import type { Home } from '../acceptance/program.js';
import { type Actor, actorOf, type Operator, operate } from './actors.js';
import { text } from './json.js';
import { discover } from './oauth.js';

/** Returns the operator of the service that runs in a home. */
export function operatorOf(home: Pick<Home, 'directory'>): Operator {
  const record = JSON.parse(readFileSync(join(home.directory, 'run/asp-cli/serve/default.json'), 'utf8')) as {
    operator_url: string;
    secret: string;
  };
  return { url: record.operator_url, secret: record.secret };
}

/** Creates a client for an agent of the service that runs in a home, and signs in with it at `url`. */
export async function actorIn(home: Pick<Home, 'directory'>, url: string, handle: string): Promise<Actor> {
  const client = await operate(operatorOf(home), 'POST', '/clients', { handle });
  return actorOf(await discover(url), handle, {
    clientId: text(client, 'client_id'),
    clientSecret: text(client, 'client_secret'),
  });
}
