import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

import { loadCommands, optionName } from '../../../src/cli/command.js';
import { SETTING_NAMES, toVariable } from '../../../src/cli/commands/serve/settings.js';
import { PROGRAM } from '../../../src/cli/program.js';
import { freshHome, type RunOptions, runWords } from '../captured-run.js';

const { commands: COMMANDS } = await loadCommands(PROGRAM);

interface Item {
  readonly name: string;
  readonly value: unknown;
  readonly source: string;
}

/** Returns what `--print-config` prints for each setting. */
async function effective(words: string, options: RunOptions = {}): Promise<Record<string, Omit<Item, 'name'>>> {
  const { code, out, err } = await runWords(`serve ${words} --print-config --json`, options);
  expect(code, err).toBe(0);
  const { items } = JSON.parse(out) as { items: Item[] };
  expect(items.map(({ name }) => name)).toEqual(SETTING_NAMES);
  return Object.fromEntries(items.map(({ name, value, source }) => [name, { value, source }]));
}

function configOf(text: unknown): string {
  const path = join(freshHome(), 'serve.json');
  writeFileSync(path, typeof text === 'string' ? text : JSON.stringify(text));
  return path;
}

describe('the settings of a service', () => {
  it('have the documented defaults', async () => {
    const settings = await effective('');
    expect(settings).toMatchObject({
      host: { value: '127.0.0.1', source: 'default' },
      port: { value: 8744, source: 'default' },
      data: { value: null },
      'behind-proxy': { value: false },
      seed: { value: [] },
      policy: { value: 'open' },
      limits: { value: 'on' },
      trust: { value: 'recipient' },
      'database-connections': { value: 14 },
      'database-statement-timeout': { value: 15_000 },
      'database-lock-timeout': { value: 10_000 },
      'database-page': { value: 200 },
      'drain-delay': { value: 0 },
      'presence-grace': { value: null },
      retention: { value: null },
      log: { value: 'errors' },
      'key-file': { value: null },
      'metrics-port': { value: null },
      'metrics-host': { value: '127.0.0.1' },
      'metrics-token-file': { value: null },
      'tls-cert': { value: null },
      'tls-key': { value: null },
      'operator-port': { value: null },
      'operator-host': { value: '127.0.0.1' },
      'operator-token-file': { value: null },
    });
  });

  it('can each be given by a flag of that name', () => {
    const serve = COMMANDS.find(({ path }) => path === 'serve');
    const flags = (serve?.options ?? []).map((option) => optionName(option.flags).long);
    const others = ['config', 'print-config', 'detach', 'ready-file', 'adopt-attachments'];
    expect(flags.filter((flag) => !others.includes(flag)).sort()).toEqual([...SETTING_NAMES].sort());
  });

  it('come from the flag, else the variable, else the file', async () => {
    const config = configOf({ port: 1, host: 'localhost', log: 'json', seed: ['a.b', '@c.d'], 'behind-proxy': true });
    const environment = { ASP_SERVE_PORT: '2', ASP_SERVE_LOG: 'text', ASP_SERVE_TRUST: '' };
    const settings = await effective(`--config ${config} --port 3`, { environment });
    expect(settings).toMatchObject({
      port: { value: 3, source: '--port' },
      log: { value: 'text', source: 'ASP_SERVE_LOG' },
      host: { value: 'localhost', source: `"host" in ${config}` },
      seed: { value: ['@a.b', '@c.d'] },
      'behind-proxy': { value: true },
      trust: { value: 'recipient', source: 'default' },
    });
  });

  it('may name the file in a variable', async () => {
    const config = configOf({ port: 99 });
    const settings = await effective('', { environment: { ASP_SERVE_CONFIG: config } });
    expect(settings['port']).toEqual({ value: 99, source: `"port" in ${config}` });
  });

  it('resolve a data folder relative to their source: the folder of the file', async () => {
    const config = configOf({ data: 'here' });
    expect((await effective(`--config ${config}`))['data']?.value).toBe(config.replace('serve.json', 'here'));
    expect((await effective(`--config ${configOf({ data: 'memory' })}`))['data']?.value).toBe('memory');
  });

  it('can be switched on and off with the usual words for variables', async () => {
    for (const [text, value] of [
      ['1', true],
      ['on', true],
      ['TRUE', true],
      ['no', false],
      ['0', false],
    ])
      expect((await effective('', { environment: { ASP_SERVE_DEMO: String(text) } }))['demo']?.value).toBe(value);
  });

  it('never show the password of a database', async () => {
    const environment = { ASP_SERVE_DATABASE: 'postgres://asp:hunter2@db/asp' };
    const { out } = await runWords('serve --print-config', { environment });
    expect(out).toContain('postgres://asp@db/asp');
    expect(out).not.toContain('hunter2');
  });

  it('are shown to people as a table of effective values and their sources', async () => {
    const { code, out } = await runWords('serve --print-config --port 7');
    expect(code).toBe(0);
    expect(out).toContain('port\t7\t--port\n');
  });

  it('are shown to people with times as they are written, and to programs in milliseconds', async () => {
    const words = 'serve --print-config --retention 90d --presence-grace 1m';
    const { out } = await runWords(words);
    expect(out).toContain('retention\t90d\t--retention\n');
    expect(out).toContain('presence-grace\t1m\t--presence-grace\n');
    expect(out).toContain('database-statement-timeout\t15s\tdefault\n');
    expect((await runWords(`${words} --json`)).out).toContain('{"name":"retention","value":7776000000,');
  });

  const refused: [what: string, file: unknown, said: RegExp][] = [
    ['an unknown key', { prot: 1 }, /Unknown setting 'prot'[\s\S]*did you mean 'port'\?/],
    ['a key spelled with _', { public_url: 'https://x' }, /did you mean 'public-url'\?/],
    ['a key like nothing', { nonsense: 1 }, /settings: host, port/],
    ['a number as text', { port: '8744' }, /"port" must be of type (int|number)/],
    ['a port out of range', { port: 70_000 }, /"port" in .*serve\.json '70000' is not a whole number/],
    ['a value that is no choice', { log: 'loud' }, /"log" in .*'loud' is not one of errors, text, json/],
    ['too few connections', { 'database-connections': 6 }, /'6' is not a whole number from 7 to 1000/],
    ['a short timeout', { 'database-lock-timeout': '1ms' }, /'1ms' is not from 1s to 10m/],
    ['a huge page', { 'database-page': 100_000 }, /'100000' is not a whole number from 10 to 5000/],
    ['a long drain delay', { 'drain-delay': '2h' }, /"drain-delay" in .*'2h' is longer than 1h/],
    ['a short retention', { retention: '23h' }, /"retention" in .*'23h' is not from 1d to 3660d/],
    ['a bad duration', { 'presence-grace': 'soon' }, /is not a duration/],
    ['a list', [], /The configuration must be of type object/],
    ['text that is no JSON', '{', /is not JSON/],
    ['a prototype', '{"__proto__": {"port": 1}}', /Unknown setting|not valid|port/],
  ];
  for (const [what, file, said] of refused)
    it(`refuse ${what} with exit 2`, async () => {
      const { code, out, err } = await runWords(`serve --print-config --config ${configOf(file)}`);
      expect(err).toMatch(said);
      expect({ code, out }).toEqual({ code: 2, out: '' });
    });

  it('refuse a missing file or a folder with exit 2', async () => {
    const folder = freshHome();
    mkdirSync(join(folder, 'serve.json'));
    for (const path of [join(folder, 'none.json'), join(folder, 'serve.json')]) {
      const { code, err } = await runWords(`serve --print-config --config ${path}`);
      expect(code).toBe(2);
      expect(err).toMatch(/Cannot read/);
    }
  });

  it('refuse an invalid variable with exit 2, even if a flag overrides it', async () => {
    const environment = { ASP_SERVE_PORT: 'tcp://10.0.0.1:8744' };
    const { code, err } = await runWords('serve --print-config --port 1', { environment });
    expect(code).toBe(2);
    expect(err).toMatch(/ASP_SERVE_PORT 'tcp:\/\/10\.0\.0\.1:8744' is not a whole number from 0 to 65535/);
  });

  it('warn about a variable that is probably misspelled', async () => {
    const { code, err } = await runWords('serve --print-config', { environment: { ASP_SERVE_PROT: '1' } });
    expect(code).toBe(0);
    expect(err).toContain('ASP_SERVE_PROT is not a setting of asp serve and is ignored. Did you mean ASP_SERVE_PORT?');
    for (const name of SETTING_NAMES) expect(toVariable(name)).toMatch(/^ASP_SERVE_[A-Z_]+$/);
  });
});
