import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { openSqlite } from '../../../src/service/store/sqlite.js';
import { loadSqlite } from '../../../src/service/store/sqlite-driver.js';
import { text } from '../../support/json.js';
import { AGENT_SCOPE, REDIRECT_URI } from '../../support/oauth.js';
import { Actor } from './actor.js';
import type { Cryptography } from './cryptography.js';
import { HttpClient } from './http-client.js';
import { type Beginning, Run } from './run.js';

const START_MS = 1_800_000_000_000;
const AGENTS = [
  { handle: '@ann.bot', inbound_policy: 'open' },
  { handle: '@ben.bot', inbound_policy: 'open' },
  { handle: '@cleo.bot', inbound_policy: 'allowlist' },
  { handle: '@dan.bot', inbound_policy: 'open' },
  { handle: '@dan.second', inbound_policy: 'open' },
  { handle: '@eve.bot', inbound_policy: 'allowlist' },
];

/** Where many short-lived databases are created: in memory if possible. */
const ROOT = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

/** The state from which every run starts. The service created it once, without faults. */
export interface Origin {
  /** Copies the beginning for one run. `remove` deletes the copy. */
  copy(): Beginning & { remove(): void };
  remove(): void;
}

export async function prepareOrigin(cryptography: Cryptography): Promise<Origin> {
  const root = mkdtempSync(join(ROOT, 'asp-simulation-'));
  const openConnection = await loadSqlite();
  const directory = join(root, 'origin');
  await (await openSqlite({ directory })).close();
  const run = new Run(1, { directory, startMs: START_MS, credentials: [], openConnection }, 0);
  cryptography.use(run.world);
  run.world.isCalm = true;
  const actors = (await run.drive(signIn(run))) ?? [];
  await run.close();
  if (run.world.violations.length > 0) throw new Error(run.world.violations.join('; '));
  const snapshot = join(root, 'origin.sqlite');
  const source = openConnection(join(directory, 'asp.sqlite'));
  source.exec(`VACUUM INTO '${snapshot}'`);
  source.close();
  const startMs = run.world.now + 1;
  const credentials = actors.map(({ handle, clientId, accessToken, refreshToken }) => {
    return { handle, clientId, accessToken, refreshToken: refreshToken ?? '' };
  });
  let copies = 0;
  return {
    copy() {
      copies += 1;
      const own = join(root, `run-${copies}`);
      mkdirSync(own);
      copyFileSync(snapshot, join(own, 'asp.sqlite'));
      const remove = (): void => rmSync(own, { recursive: true, force: true });
      return { directory: own, startMs, credentials, openConnection, remove };
    },
    remove: () => rmSync(root, { recursive: true, force: true }),
  };
}

async function signIn(run: Run): Promise<Actor[]> {
  const { stage } = run;
  const http = new HttpClient(stage.connect);
  const json = { 'content-type': 'application/json' };
  await stage.pause();
  const body = JSON.stringify({
    client_name: 'Simulation',
    redirect_uris: [REDIRECT_URI],
    grant_types: ['authorization_code', 'refresh_token'],
    token_endpoint_auth_method: 'none',
    scope: AGENT_SCOPE.join(' '),
  });
  const registered = await http.call({ method: 'POST', path: '/register', headers: json, body });
  const clientId = text(registered?.json, 'client_id');
  const actors: Actor[] = [];
  for (const agent of AGENTS) {
    const headers = { ...json, authorization: `Bearer ${stage.operatorSecret}` };
    await http.call({ method: 'POST', path: '/operator/agents', headers, body: JSON.stringify(agent) });
    const actor = new Actor(stage, { handle: agent.handle, clientId, accessToken: '', refreshToken: '' });
    actor.refreshToken = undefined;
    await actor.renew('');
    actors.push(actor);
  }
  return actors;
}
