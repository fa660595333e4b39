import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { startTestService, type TestService } from '../../support/service.js';
import { freshHome, type Ran, runWords, writeFileIn } from '../captured-run.js';

const TOKEN = 'CANARY'.padEnd(32, '0');

describe('asp serve … --operator', () => {
  const home = freshHome();
  let service: TestService;
  let url: string;
  beforeAll(async () => {
    const tokens = [{ name: 'maria', token: TOKEN }];
    service = await startTestService({ version: '1.2.3', remoteOperators: { host: '127.0.0.1', port: 0, tokens } });
    await service.createAgent('alice');
    url = new URL(service.remoteOperatorUrl ?? '').origin;
  });
  afterAll(() => service.stop());

  const write = (name: string, text: string, mode?: number): string => writeFileIn(home, name, text, mode);
  /** Runs on a machine without a service. */
  const run = (line: string, token: string | undefined = TOKEN, terminal = {}): Promise<Ran> =>
    runWords(line, {
      ...terminal,
      environment: { ASP_OPERATOR_TOKEN: token, XDG_RUNTIME_DIR: join(home, 'run') },
      machine: { homeDirectory: home, workingDirectory: home },
    });
  const succeed = async (line: string): Promise<string> => {
    const { code, out, err } = await run(`${line} --operator ${url}`);
    expect({ line, code, err: code === 0 ? '' : err }).toEqual({ line, code: 0, err: '' });
    return out;
  };

  it('shows the status of a service on another machine', async () => {
    const out = await succeed('serve status');
    expect(out).toContain(`running at ${url}\nprocess  ${process.pid}, version 1.2.3`);
    expect(out).not.toContain('data ');
    const json = await succeed('serve status --json');
    expect(JSON.parse(json)).toMatchObject({ url, agents: 1 });
    expect(json).not.toContain(TOKEN);
  });

  it.each([
    ...['serve status', 'serve account list', 'serve agent list', 'serve client list', 'serve invite list'],
    'commands serve',
  ])('asp %s fits a terminal of 40 columns, with whole ids and handles', async (line) => {
    const client = JSON.parse(await succeed('serve client add @alice.with-a-very-long-name')) as { client_id: string };
    const invitation = JSON.parse(await succeed('serve invite create --json')) as { id: string };
    const { out } = await run(`${line} --operator ${url} --color never`, TOKEN, { isTerminal: true, columns: 40 });
    expect(out.split('\n').filter((each) => each.length > 40)).toEqual([]);
    if (line === 'serve agent list') expect(out).toContain('@alice.with-a-very-long-name  ');
    if (line === 'serve client list') expect(out).toContain(client.client_id);
    if (line === 'serve invite list') expect(out).toContain(invitation.id);
  });

  it('manages accounts, agents, clients, invitations and keys there', async () => {
    await succeed('serve agent add @bob.bot');
    expect(await succeed('serve agent list')).toContain('@bob.bot');
    await succeed('serve agent pause @bob.bot');
    await succeed('serve account suspend bob');
    expect(await succeed('serve account show bob')).toContain('bob, suspended');
    await succeed('serve account export bob bob.json');
    expect(readFileSync(join(home, 'bob.json'), 'utf8')).toContain('"username":"bob"');
    await succeed('serve account resume bob');
    const client = JSON.parse(await succeed('serve client add @bob.bot')) as { client_id: string };
    await succeed(`serve client revoke ${client.client_id} --yes`);
    expect(await succeed('serve invite create')).toContain(service.webUrl);
    expect(await succeed('serve keys list')).toContain('signing');
    expect(await succeed('serve retention')).toContain('off');
    await succeed('serve account remove bob --yes');
  });

  it('takes the token from a private file too', async () => {
    const path = write('token', `${TOKEN}\n`);
    const line = `serve agent list --operator ${url} --operator-token-file`;
    expect((await run(`${line} ${path}`, undefined)).code).toBe(0);
    const { code, err } = await run(`${line} ${write('open', TOKEN, 0o644)}`, undefined);
    expect(code).toBe(2);
    expect(err).toMatch(/other users can read or write it/);
  });

  it('says that the token is wrong, names the service, and repeats no token', async () => {
    const { code, err } = await run(`serve agent list --debug --operator ${url}`, 'WRONG'.padEnd(32, '1'));
    expect(code).toBe(4);
    expect(err).toContain(`The service at ${url} does not accept this token.`);
    expect(err).toContain('it came from ASP_OPERATOR_TOKEN.');
    expect(err).not.toContain('asp login');
    expect(err).not.toContain('try:');
    expect(err).not.toContain('WRONG');
    const path = write('wrong', 'WRONG'.padEnd(32, '1'));
    const filed = await run(`serve account export alice - --operator ${url} --operator-token-file ${path}`, undefined);
    expect(filed.code).toBe(4);
    expect(filed.err).toContain(`it came from ${path}. The service accepts those that were in the file`);
  });

  it('says what is not there, and where to look for it', async () => {
    const { code, err } = await run(`serve account show nina --operator ${url}`);
    expect(code).toBe(3);
    expect(err).toContain(`The service at ${url} has no such account.`);
    expect(err).toContain(`asp serve account list --operator ${url}\n`);
  });

  it('says that the address is that of the service, not that of its operators', async () => {
    const other = await startTestService({ isBehindProxy: true });
    for (const words of ['account list', 'agent add x.bot', 'status']) {
      const { code, err } = await run(`serve ${words} --operator ${other.authUrl}`);
      expect({ words, code }).toEqual({ words, code: 3 });
      expect(err).toContain(`Operators are not served at ${other.authUrl}.`);
      expect(err).toContain('the address of asp serve --operator-port');
      expect(err).not.toContain('has no such');
    }
    await other.stop();
  });

  it.each([
    ['serve status --operator http://ops.example.org', /must be encrypted/],
    ['serve status --operator ops.example.org', /is not a URL/],
    ['serve status --operator-token-file x', /--operator-token-file needs --operator/],
    ['serve stop --operator https://ops.example.org', /asp serve stop works only on the machine of the service/],
    ['serve backup x.tar --operator https://ops.example.org', /asp serve backup works only on the machine/],
    ['serve restore x.tar --operator=https://ops.example.org', /asp serve restore works only on the machine/],
    ['serve trigger end --operator-token-file x', /asp serve trigger works only on the machine/],
  ])('%s is refused with the reason', async (line, reason) => {
    const { code, out, err } = await run(line);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(reason);
  });

  it('needs a token', async () => {
    const { code, err } = await run(`serve status --operator ${url}`, '');
    expect(code).toBe(2);
    expect(err).toMatch(/--operator needs your token.*ASP_OPERATOR_TOKEN/s);
  });
});

describe('asp serve --operator-port', () => {
  const home = freshHome();

  const write = (name: string, text: string): string => writeFileIn(home, name, text);

  it('says which port another program has, and how to start anyway', async () => {
    const other = await startTestService();
    const words = `--operator-port ${other.port} --operator-token-file ${write('right', TOKEN)}`;
    const refused = await runWords(`serve --port 0 --metrics-port 0 --data memory ${words}`);
    const twice = await runWords(`serve --port 0 --metrics-port ${other.port} --data memory ${words}`);
    await other.stop();
    expect(refused.code).toBe(6);
    expect(refused.err).toContain(`Port ${other.port} on 127.0.0.1 is in use`);
    expect(refused.err).toContain('asp serve --operator-port 0');
    expect(twice.code).toBe(2);
    expect(twice.err).toContain(`--metrics-port and --operator-port are both ${other.port}.`);
  });

  it.each([
    ['--operator-port 0', /--operator-port needs --operator-token-file/],
    ['--operator-host ::1', /--operator-host needs --operator-port/],
    ['--operator-token-file x', /--operator-token-file needs --operator-port/],
    [
      `--operator-port 0 --operator-host 0.0.0.0 --operator-token-file ${write('one', TOKEN)}`,
      /would cross the network in the clear.*--behind-proxy/s,
    ],
    [`--operator-port 0 --operator-token-file ${write('short', 'maria short')}`, /no token that is hard to guess/],
    [`--operator-port 0 --operator-token-file ${write('long', `maria the ${TOKEN}`)}`, /neither a token nor a name/],
    [`--operator-port 0 --operator-token-file ${write('none', '# maria')}`, /contains no token/],
    [
      `--operator-port 0 --operator-token-file ${write('twice', `maria ${TOKEN}\ntom ${TOKEN}`)}`,
      /contains a token twice.*tell its holders apart/s,
    ],
  ])('%s is refused with the reason, which repeats no token', async (words, reason) => {
    const { code, out, err } = await runWords(`serve --port 0 --data memory ${words}`);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(reason);
    expect(err).not.toContain('CANARY');
  });
});
