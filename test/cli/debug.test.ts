import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { SESSION_ID } from '../support/canned-replies.js';
import { type CannedService, startCannedService } from '../support/canned-service.js';
import { type Ran, runWords } from './captured-run.js';

const TOKEN = 'opaque-token-of-the-interface';
const SOCKET_TOKEN = 'opaque-token-of-the-socket';
const TAIL = `tail ${SESSION_ID} -n 9 -c 5 --debug`;

let service: CannedService;
beforeAll(async () => {
  service = await startCannedService();
});
afterAll(() => service.close());

const run = (words: string): Promise<Ran> => {
  const environment = { ASP_PROFILE: service.baseUrl, ASP_TOKEN: TOKEN, ASP_WS_TOKEN: SOCKET_TOKEN, ASP_RETRIES: '0' };
  return runWords(words, { environment });
};
const lines = ({ err }: Ran): string[] => err.split('\n').slice(0, -1);

describe('--debug', () => {
  it('shows each request and its answer on one line, with the duration', async () => {
    const ran = await run('session list --debug');
    // The list leaves out the agent itself, so it asks who that is: the token does not say.
    const exchange = ['request ', 'answer  ', 'answer  '];
    expect(lines(ran).map((line) => line.slice(0, 8))).toEqual([...exchange, ...exchange]);
    expect(ran.err).toContain(`request GET ${service.baseUrl}/sessions?limit=50 user-agent: asp-cli/1.2.3`);
    expect(ran.err).toContain('authorization: [redacted]');
    expect(ran.err).toMatch(/^answer {2}200 after \d+ ms content-type: application\/json/m);
    expect(ran.err).toContain(`{"sessions":[{"id":"${SESSION_ID}"`);
  });

  it('shows the socket: its address, when it opens, its events, and when it closes', async () => {
    const ran = await run(TAIL);
    expect(ran.code).toBe(0);
    const socket = lines(ran).filter((line) => line.startsWith('socket '));
    expect(socket[0]).toBe(`socket  connect ${service.wsUrl}`);
    expect(socket).toContain('socket  open');
    expect(socket.filter((line) => / event /.test(line))[1]).toMatch(
      new RegExp(`^socket {2}event session\\.message ${SESSION_ID} #2 \\(\\d+ bytes\\)$`),
    );
    expect(ran.err).not.toContain('token-of-the');
  });

  it('prints lines of JSON with --json, and does not change stdout', async () => {
    const ran = await run(`${TAIL} --json`);
    for (const line of lines(ran))
      expect(JSON.parse(line)).toEqual({ trace: { kind: expect.any(String), text: expect.any(String) } });
    expect(lines(ran).length).toBeGreaterThan(8);
    expect(ran.out).toBe((await run(TAIL.replace(' --debug', ''))).out);
  });

  it('ends with the failure and does not redact its code', async () => {
    service.refusal = { status: 404, code: 'NOT_FOUND' };
    const ran = await run('session list --debug --json');
    service.refusal = undefined;
    expect(ran.err).toContain('\\"code\\":\\"NOT_FOUND\\"');
    expect(JSON.parse(lines(ran).at(-1) ?? '')).toMatchObject({ error: { code: 'NOT_FOUND', exit_code: 3 } });
  });
});

describe('a service that repeats the credential in its refusal', () => {
  it.each([
    ['session list', TOKEN],
    ['api sessions -i', TOKEN],
    [`tail ${SESSION_ID} -n 1`, SOCKET_TOKEN],
  ])('does not make asp %s print it', async (words, token) => {
    for (const more of ['', ' --json', ' --debug', ' --json --debug']) {
      service.refusal = {
        status: 403,
        code: 'FORBIDDEN',
        message: `the token ${token} may not do this`,
        headers: { 'x-said': token },
        isForSocket: token === SOCKET_TOKEN,
      };
      const { code, out, err } = await run(`${words}${more}`);
      service.refusal = undefined;
      expect(code).toBe(5);
      expect(`${out}${err}`).not.toContain(token);
      expect(err).toContain('may not do this');
    }
  });
});
