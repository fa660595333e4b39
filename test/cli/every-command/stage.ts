import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { createBackup } from '../../../src/service/operator/backup.js';
import { startService } from '../../../src/service/service.js';
import { PEER, SESSION_ID, TIME } from '../../support/canned-replies.js';
import { type CannedService, startCannedService } from '../../support/canned-service.js';
import { copyFolder } from '../../support/copy-folder.js';
import { freshHome, type Ran, type RunOptions, runWords, splitWords } from '../captured-run.js';
import type { Case } from './cases.js';

/** A canned service, and homes that contain everything the commands of the table need. */
export interface Stage {
  readonly service: CannedService;
  /** Runs a case in a fresh home, with the words of `more` at the end. */
  run(one: Case, more?: readonly string[], options?: RunOptions): Promise<Ran>;
  close(): Promise<void>;
}

/**
 * A stand-in for the browser that follows the address and its redirects. It starts in half the time that `fetch` takes.
 */
const BROWSER = `
import { get } from 'node:http';
const open = (url) =>
  get(url, (answer) => {
    answer.resume();
    if (answer.headers.location !== undefined) open(new URL(answer.headers.location, url));
  }).on('error', () => {});
open(process.argv[2]);
`;

/** A recorded invitation with a message for `@me.bot`, which got no answer. */
const RECORDED = {
  ...{ type: 'session.invited', session_id: SESSION_ID, event_id: 'evt_1', sequence: 1, created_at: TIME },
  payload: {
    ...{ invitee: '@me.bot', by: PEER },
    initial_message: {
      id: 'msg_1',
      session_id: SESSION_ID,
      sender: PEER,
      sequence: 2,
      content: 'hi',
      created_at: TIME,
    },
  },
};

/** Creates the data of a stopped service and a backup of it. */
async function createData(folder: string): Promise<void> {
  const directory = join(folder, 'data');
  const holder = await startService({ host: '127.0.0.1', port: 0, data: { directory } });
  await holder.stop();
  const file = join(folder, 'backup.tar');
  await createBackup({ directory, file, isForced: false, withKeys: false, now: TIME });
}

function furnish(home: string, service: CannedService): void {
  const runtime = join(home, 'run', 'asp-cli', 'serve');
  mkdirSync(runtime, { recursive: true, mode: 0o700 });
  const record = {
    ...{ name: 'default', url: service.baseUrl, auth_url: service.origin, web_url: service.origin },
    ...{ ws_url: service.wsUrl, operator_url: service.operatorUrl, port: 1, pid: 1, version: '1.2.3', data: 'memory' },
    ...{ started_at: 1, secret: 'operator-secret' },
  };
  writeFileSync(join(runtime, 'default.json'), JSON.stringify(record), { mode: 0o600 });
  writeFileSync(join(runtime, '1-8744.log'), 'listening\n', { mode: 0o600 });
  const config = join(home, '.config', 'asp-cli');
  mkdirSync(config, { recursive: true, mode: 0o700 });
  const here = { base_url: service.baseUrl, agent: '@me.bot' };
  writeFileSync(join(config, 'config.json'), JSON.stringify({ profiles: { here }, aliases: { new: ['inbox'] } }), {
    mode: 0o600,
  });
  writeFileSync(join(home, 'note.txt'), 'a note\n');
  writeFileSync(join(home, 'browser.mjs'), BROWSER);
  writeFileSync(join(home, 'mock.json'), '{ "rules": [{ "do": [] }] }');
  writeFileSync(join(home, 'recording.jsonl'), `${JSON.stringify(RECORDED)}\n`);
}

export async function startStage(): Promise<Stage> {
  const service = await startCannedService();
  const fresh = freshHome();
  furnish(fresh, service);
  const shared = freshHome();
  await createData(shared);

  const inHome = (home: string, one: Case, more: readonly string[], options: RunOptions): Promise<Ran> => {
    const browser = `${process.execPath} ${join(home, 'browser.mjs')}`;
    const words = splitWords(one.line).map((word) =>
      word === '$BROWSER' ? browser : word.replace('$HOME', home).replace('$SHARED', shared),
    );
    const token = { ASP_TOKEN: 'canned-token', ASP_WS_TOKEN: 'canned-socket-token' };
    return runWords([...words, ...more], {
      stdin: one.stdin ?? 'terminal',
      ...options,
      environment: {
        ASP_PROFILE: service.baseUrl,
        ASP_TOKEN_STORE: 'file',
        ASP_RETRIES: '0',
        EDITOR: 'true',
        PATH: process.env['PATH'] ?? '',
        XDG_RUNTIME_DIR: join(home, 'run'),
        ...(one.isSignedIn === true || one.asks === 'the sign-in' ? {} : token),
        ...options.environment,
      },
      machine: {
        homeDirectory: home,
        workingDirectory: home,
        isProcessAlive: () => !service.received.includes('stopService'),
        ...options.machine,
      },
    });
  };
  const signedIn = freshHome();
  copyFolder(fresh, signedIn);
  const { code, err } = await inHome(
    signedIn,
    { line: 'login --browser $BROWSER --store file', asks: 'the sign-in' },
    [],
    {},
  );
  if (code !== 0) throw new Error(`nobody can sign in: ${err}`);
  return {
    service,
    run(one, more = [], options = {}) {
      const home = mkdtempSync(join(tmpdir(), 'asp-case-'));
      copyFolder(one.isSignedIn === true ? signedIn : fresh, home);
      service.received.length = 0;
      return inHome(home, one, more, options);
    },
    close: () => service.close(),
  };
}
