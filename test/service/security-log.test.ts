import { execFileSync } from 'node:child_process';
import { closeSync, constants, mkdtempSync, openSync, readFileSync, readSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';

import { createServiceLog } from '../../src/cli/commands/serve/start.js';
import { createOutput } from '../../src/cli/terminal/output.js';
import { isFileError } from '../../src/kit/private-file.js';
import type { Log } from '../../src/service/core/context.js';
import { operate } from '../support/actors.js';
import { captureStreams } from '../support/captured-streams.js';
import { createTestClock } from '../support/clock.js';
import { request } from '../support/http.js';
import { text } from '../support/json.js';
import {
  authorizationUrl,
  createVerifier,
  mustRegister,
  redeemCode,
  redirectParameters,
  refresh,
} from '../support/oauth.js';
import { startTestService, type TestService } from '../support/service.js';
import { until } from '../support/until.js';
import { createBrowser } from './authorization-server/browser.js';

const SIGN_IN = '/oauth/sign-in';
const PASSWORD = 'correct horse battery';

/** Returns the log lines, each with its request id. */
const named = (lines: readonly Record<string, unknown>[]) =>
  lines.map((line) => ({ ...line, request_id: expect.stringMatching(/^req_/) }));

describe('the security log', () => {
  const lines: Record<string, string>[] = [];
  const log: Log = {
    info: () => {},
    warn: () => {},
    error: () => {},
    security: (event, fields) => void lines.push({ event, ...fields }),
  };
  let service: TestService;
  beforeEach(async () => {
    lines.length = 0;
    service = await startTestService({ areLimitsOn: false, log, metricsPort: 0 });
  });
  afterEach(() => service.stop());

  /** Signs up a person who lets an application act as their new agent. */
  async function consent() {
    const clientId = await mustRegister(service.place);
    const { verifier, challenge } = createVerifier();
    const browser = createBrowser(service.webUrl);
    const asked = await browser.get(authorizationUrl(service.place, { clientId, challenge }));
    const person = { username: 'maria', display_name: 'Maria', password: PASSWORD };
    const page = await browser.follow(await browser.submit(asked, '/oauth/sign-up', person));
    const choice = { decision: 'allow', agent: 'new', agent_name: 'main' };
    const code = redirectParameters(await browser.submit(page, '/oauth/authorize', choice)).get('code') ?? '';
    const { json } = await redeemCode(service.place, clientId, code, verifier);
    return { browser, clientId, code, verifier, refreshToken: text(json, 'refresh_token') };
  }
  const tryWith = async (username: string, password: string): Promise<void> => {
    const browser = createBrowser(service.webUrl);
    await browser.submit(await browser.get(SIGN_IN), SIGN_IN, { username, password });
  };
  const metric = async (name: string): Promise<string | undefined> =>
    new RegExp(`^${name} (\\d+)$`, 'm').exec((await request(service.metricsUrl ?? '')).text)?.[1];

  it('records sign-ups, sign-ins, and approvals, with their addresses', async () => {
    const { clientId } = await consent();
    await tryWith('maria', PASSWORD);
    const from = { account: 'maria', address: '127.0.0.1' };
    expect(lines).toMatchObject([
      { event: 'signed_up', ...from, outcome: 'done' },
      { event: 'signed_in', ...from, outcome: 'done' },
      { event: 'consent', ...from, client: clientId, outcome: 'allowed' },
      { event: 'signed_in', ...from, outcome: 'done' },
    ]);
  });

  it('records failed sign-ins, and never what was typed', async () => {
    await consent();
    lines.length = 0;
    await tryWith('maria', 'a-wrong-password');
    await tryWith('a-password-in-the-wrong-field', PASSWORD);
    await operate(service.operator, 'PATCH', '/accounts/maria', { suspended: true });
    await tryWith('maria', PASSWORD);
    expect(lines).toEqual(
      named([
        { event: 'sign_in_failed', account: 'maria', address: '127.0.0.1', outcome: 'wrong_password' },
        { event: 'sign_in_failed', address: '127.0.0.1', outcome: 'no_such_account' },
        { event: 'operator_acted', operation: 'updateOperatorAccount', target: 'maria', outcome: 'done' },
        { event: 'sign_in_failed', account: 'maria', address: '127.0.0.1', outcome: 'suspended' },
      ]),
    );
    expect(await metric('asp_failed_sign_ins_total')).toBe('2');
  });

  it('records a refresh token and a code that are used twice', async () => {
    const { clientId, code, verifier, refreshToken } = await consent();
    lines.length = 0;
    for (const status of [200, 401]) expect((await refresh(service.place, clientId, refreshToken)).status).toBe(status);
    await redeemCode(service.place, clientId, code, verifier);
    expect(lines).toMatchObject([
      { event: 'refresh_token_reused', client: clientId, outcome: 'family_revoked' },
      { event: 'code_reused', client: clientId, outcome: 'refused' },
    ]);
    expect(await metric('asp_refresh_token_reuses_total')).toBe('1');
    expect(JSON.stringify(lines)).not.toContain(refreshToken);
  });

  it('records changes that an account makes in the dashboard, and actions of the operator', async () => {
    const { browser } = await consent();
    lines.length = 0;
    const page = '/dashboard/new-client';
    await browser.submit(await browser.get(page), page, { name: 'ci', agent: 'main', scope: 'sessions:read' });
    await browser.submit(await browser.get(page), page, { name: '', agent: 'main', scope: 'sessions:read' });
    await operate(service.operator, 'POST', '/keys/rotate');
    await request(`${service.operatorUrl}/accounts/nobody`, {
      method: 'DELETE',
      headers: { authorization: `Bearer ${service.operatorSecret}` },
    });
    await operate(service.operator, 'GET', '/accounts');
    expect(lines).toEqual(
      named([
        { event: 'account_acted', account: 'maria', address: '127.0.0.1', target: page, outcome: 'done' },
        { event: 'keys_rotated', key: expect.any(String), outcome: 'done' },
        { event: 'operator_acted', operation: 'rotateSigningKeys', outcome: 'done' },
        { event: 'operator_acted', operation: 'removeOperatorAccount', target: 'nobody', outcome: 'NOT_FOUND' },
      ]),
    );
  });
});

describe('The security log goes', () => {
  const directory = mkdtempSync(join(tmpdir(), 'asp-security-log-'));
  const path = join(directory, 'security.jsonl');
  afterEach(() => rmSync(path, { force: true }));
  afterAll(() => rmSync(directory, { recursive: true }));
  const open = (format: 'errors' | 'json', file?: string) => {
    const streams = captureStreams({});
    const settings = { format: 'human', fields: undefined, isQuiet: false, isVerbose: false } as const;
    const output = createOutput(streams, { ...settings, isOutColored: false, isErrColored: false });
    return {
      streams,
      log: createServiceLog(
        { clock: createTestClock(), streams, output },
        { log: format, 'log-level': undefined, 'security-log': file },
      ),
    };
  };
  const facts = { account: 'maria', address: '192.0.2.1', outcome: 'done' };

  it('to a file that only its owner can read, one JSON line per event, appended', async () => {
    for (const count of [1, 2]) {
      const { streams, log } = open('errors', path);
      log.security?.('signed_in', facts);
      const lines = await until('the line', async () => {
        const found = readFileSync(path, 'utf8').split('\n').slice(0, -1);
        return found.length === count && found;
      });
      expect(JSON.parse(lines.at(-1) ?? '')).toMatchObject({ level: 'security', event: 'signed_in', ...facts });
      expect(streams.err()).toBe('');
    }
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  it('into the log if no file is named', async () => {
    const { streams, log } = open('json');
    log.security?.('signed_in', facts);
    await until('the line', async () => streams.err() !== '');
    expect(JSON.parse(streams.err())).toMatchObject({ level: 'security', event: 'signed_in', ...facts });
  });

  it.skipIf(process.platform === 'win32')(
    'to its file again once that can be written, and meanwhile to stderr, so that no event is lost',
    async () => {
      execFileSync('mkfifo', [path]);
      // A pipe without a reader refuses writes, like a disk that is full.
      const read = () => openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
      const first = read();
      const { streams, log } = open('errors', path);
      closeSync(first);
      for (const account of ['maria', 'tom']) log.security?.('sign_in_failed', { ...facts, account });
      await until('both lines', async () => streams.err().includes('tom'));
      expect(streams.err().trimEnd().split('\n')).toEqual([
        expect.stringMatching(/^Cannot write the security log: .*EPIPE.*"event":"sign_in_failed","account":"maria"/),
        expect.stringMatching(/^Cannot write the security log: .*EPIPE.*"event":"sign_in_failed","account":"tom"/),
      ]);
      const again = read();
      log.security?.('signed_in', facts);
      const bytes = Buffer.alloc(1_000);
      const line = await until('the line', async () => {
        try {
          return bytes.toString('utf8', 0, readSync(again, bytes)) || undefined;
        } catch (error) {
          return isFileError(error, 'EAGAIN') ? undefined : Promise.reject(error);
        }
      });
      expect(JSON.parse(line)).toMatchObject({ level: 'security', event: 'signed_in', ...facts });
      closeSync(again);
    },
  );

  it('nowhere if its file cannot be opened: the service does not start', () => {
    expect(() => open('errors', join(directory, 'missing', 'x'))).toThrow(/Cannot open the security log/);
  });
});
