import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { freshHome, type Ran, runWords } from '../captured-run.js';

const BASE = 'https://api.example.com/v1';

describe('profiles', () => {
  let home: string;
  beforeEach(() => {
    home = freshHome();
  });
  afterEach(() => rmSync(home, { recursive: true, force: true }));
  const asp = (line: string, options: { folder?: string; environment?: Record<string, string> } = {}): Promise<Ran> =>
    runWords(line, {
      machine: { homeDirectory: home, workingDirectory: options.folder ?? home },
      environment: { XDG_RUNTIME_DIR: join(home, 'run'), ...options.environment },
    });
  const configFile = (): string => join(home, '.config/asp-cli/config.json');
  const config = (): unknown => JSON.parse(readFileSync(configFile(), 'utf8'));
  const add = (name = 'work', url = BASE): Promise<Ran> => asp(`profile add ${name} --base-url ${url}`);

  describe('profile add', () => {
    it('prints the name; the first profile is used from then on', async () => {
      expect(await add()).toMatchObject({ code: 0, out: 'work\n' });
      expect(config()).toEqual({
        default_profile: 'work',
        profiles: { work: { base_url: BASE } },
        settings: {},
        aliases: {},
      });
      await add('other', 'https://other.example.com');
      expect(config()).toMatchObject({ default_profile: 'work' });
    });

    it('keeps the file readable only by its user', async () => {
      await add();
      expect(statSync(configFile()).mode & 0o777).toBe(0o600);
    });

    it('stores the given addresses without a trailing slash', async () => {
      await asp(
        `profile add work --base-url ${BASE}/ --auth-url https://id.example.com --ws-url wss://ws.example.com/`,
      );
      expect(config()).toMatchObject({
        profiles: { work: { base_url: BASE, auth_url: 'https://id.example.com', ws_url: 'wss://ws.example.com' } },
      });
    });

    const refused: [line: string, said: RegExp][] = [
      ['profile add work', /needs the base URL/],
      ['profile add work --base-url nonsense', /is not a URL/],
      ['profile add work --base-url http://api.example.com', /must be encrypted/],
      ['profile add work --base-url ftp://api.example.com', /must begin with https/],
      ['profile add work --base-url https://user:pw@api.example.com', /user or password/],
      ['profile add work --base-url https://api.example.com?x=1', /query/],
      [`profile add work --base-url ${BASE} --ws-url https://ws.example.com`, /must begin with wss/],
      [`profile add ../work --base-url ${BASE}`, /is not a valid pro/],
      [`profile add __proto__ --base-url ${BASE}`, /is not a valid pro/],
      [`profile add local --base-url ${BASE}`, /runs on this machine/],
    ];
    for (const [line, said] of refused)
      it(`asp ${line} is refused with exit 2`, async () => {
        const { code, out, err } = await asp(line);
        expect(err).toMatch(said);
        expect({ code, out }).toEqual({ code: 2, out: '' });
      });

    it('refuses an existing name (exit 2), and changes nothing', async () => {
      await add();
      const before = config();
      expect((await add('work', 'https://evil.example.com')).code).toBe(2);
      expect(config()).toEqual(before);
    });

    it('http works only on this machine', async () => {
      expect((await add('here', 'http://127.0.0.1:8744/v1')).code).toBe(0);
    });
  });

  describe('profile set', () => {
    it('changes only what is given', async () => {
      await add();
      await asp('profile set work --ws-url wss://ws.example.com');
      expect(config()).toMatchObject({ profiles: { work: { base_url: BASE, ws_url: 'wss://ws.example.com' } } });
    });

    it('removes an address for an empty text', async () => {
      await asp(`profile add work --base-url ${BASE} --auth-url https://id.example.com`);
      await asp("profile set work --auth-url ''");
      expect(config()).toMatchObject({ profiles: { work: { base_url: BASE } } });
      expect(JSON.stringify(config())).not.toContain('auth_url');
    });

    it('removes the addresses and the program of the old base URL with a new one', async () => {
      mkdirSync(join(home, '.config/asp-cli'), { recursive: true });
      const work = {
        base_url: BASE,
        auth_url: 'https://id.example.com',
        credential_command: ['print-token'],
        agent: '@a.b',
      };
      writeFileSync(configFile(), JSON.stringify({ profiles: { work } }));
      await asp('profile set work --base-url https://new.example.com');
      expect(config()).toEqual({
        profiles: { work: { base_url: 'https://new.example.com', agent: '@a.b' } },
        settings: {},
        aliases: {},
      });
    });

    it('refuses a missing profile, and suggests a similar name (exit 2)', async () => {
      await add();
      const { code, err } = await asp('profile set wrok --base-url https://x.example.com');
      expect(code).toBe(2);
      expect(err).toContain("did you mean 'work'?");
    });
  });

  describe('profile list and show', () => {
    it('list has names first, and in a pipe no header and nothing cut', async () => {
      await add();
      await add('other', 'https://other.example.com');
      expect((await asp('profile list')).out).toBe(`work\t${BASE}\t-\nother\thttps://other.example.com\t-\n`);
    });

    it('list --json has every address, and marks the default', async () => {
      await add();
      expect(JSON.parse((await asp('profile list --json')).out)).toEqual({
        items: [
          {
            name: 'work',
            base_url: BASE,
            auth_url: null,
            web_url: null,
            ws_url: null,
            agent: null,
            credential_command: null,
            default: true,
            local: false,
          },
        ],
        next_cursor: null,
      });
    });

    it('list without profiles is empty, with 0', async () => {
      expect(await asp('profile list')).toMatchObject({ code: 0, out: '' });
    });

    it('show names the command that prints tokens', async () => {
      await add();
      const { profiles, ...others } = JSON.parse(readFileSync(configFile(), 'utf8'));
      const work = { ...profiles.work, credential_command: ['vault', 'read token'] };
      writeFileSync(configFile(), JSON.stringify({ ...others, profiles: { work } }));
      expect((await asp('profile show')).out).toContain("token from vault 'read token'");
      expect(JSON.parse((await asp('profile show --json')).out).credential_command).toEqual(['vault', 'read token']);
    });

    it('show without a name is the one in use', async () => {
      await add();
      await add('other', 'https://other.example.com');
      const shown = await asp('profile show --json', { environment: { ASP_PROFILE: 'other' } });
      expect(JSON.parse(shown.out)).toMatchObject({ name: 'other', default: false });
    });
  });

  describe('profile use and remove', () => {
    it('use makes it the default, and names settings that override it', async () => {
      await add();
      await add('other', 'https://other.example.com');
      expect(await asp('profile use other')).toMatchObject({ code: 0, out: 'other\n' });
      expect(config()).toMatchObject({ default_profile: 'other' });
      const { err } = await asp('profile use work', { environment: { ASP_PROFILE: 'other' } });
      expect(err).toContain('ASP_PROFILE is still set to other');
    });

    it('use refuses an unknown profile (exit 2); local exists', async () => {
      expect((await asp('profile use nothing')).code).toBe(2);
      expect((await asp('profile use local')).code).toBe(0);
    });

    it('remove deletes it, and the default if it was that', async () => {
      await add();
      expect(await asp('profile remove work')).toMatchObject({ code: 0, out: 'work\n' });
      expect(config()).toEqual({ profiles: {}, settings: {}, aliases: {} });
      expect((await asp('profile remove work')).code).toBe(2);
    });

    for (const name of ['constructor', 'toString', '__proto__'])
      it(`${name} is not a profile`, async () => {
        expect((await asp(`profile show ${name}`)).code).toBe(2);
        expect((await asp(`profile remove ${name}`)).code).toBe(2);
        expect((await asp(`profile use ${name}`)).code).toBe(2);
      });
  });

  describe('use', () => {
    const agentOf = async (options = {}): Promise<string> =>
      JSON.parse((await asp('profile show --json', options)).out).agent;

    it('keeps the agent with the profile, and forgets it with --unset', async () => {
      await add();
      expect(await asp('use alice.bot')).toMatchObject({ code: 0, out: '@alice.bot\n' });
      expect(await agentOf()).toBe('@alice.bot');
      expect(await asp('use --unset --json')).toMatchObject({ code: 0 });
      expect(await agentOf()).toBeNull();
    });

    it('says that the agent is not signed in yet', async () => {
      await add();
      expect((await asp('use alice.bot')).err).toContain('asp login @alice.bot');
    });

    it('--here writes only the profile and the agent into .asp.json, readable by all', async () => {
      await add();
      const folder = join(home, 'project');
      mkdirSync(folder);
      expect((await asp('use alice.bot --here', { folder })).code).toBe(0);
      const file = join(folder, '.asp.json');
      expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({ profile: 'work', agent: '@alice.bot' });
      expect(statSync(file).mode & 0o444).toBe(0o444);
      expect(config()).not.toMatchObject({ profiles: { work: { agent: '@alice.bot' } } });
    });

    it('--here --unset removes the agent from the folder', async () => {
      await add();
      await asp('use alice.bot --here');
      await asp('use --here --unset');
      expect(JSON.parse(readFileSync(join(home, '.asp.json'), 'utf8'))).toEqual({ profile: 'work' });
    });

    it('warns if the folder or the environment names a different one', async () => {
      await add();
      await asp('use alice.bot --here');
      expect((await asp('use bob.bot')).err).toContain('.asp.json still sets @alice.bot');
      expect((await asp('use bob.bot', { environment: { ASP_AGENT: 'carol.bot' } })).err).toContain(
        'ASP_AGENT is still set to',
      );
    });

    it('refuses a service without a profile (exit 2): a folder never names an address', async () => {
      const environment = { ASP_PROFILE: BASE };
      for (const line of ['use alice.bot', 'use alice.bot --here']) {
        const { code, err } = await asp(line, { environment });
        expect(code, line).toBe(2);
        expect(err).toContain('asp profile add work --base-url');
      }
    });

    it('does not prompt without a terminal: a handle is required (exit 2)', async () => {
      await add();
      expect((await asp('use')).code).toBe(2);
    });
  });
});
