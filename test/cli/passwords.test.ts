import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

import { hidePasswords } from '../../src/kit/sanitize.js';
import { freshHome, type RunOptions, runWords } from './captured-run.js';

const PASSWORD = 'CANARY-pw';
const ADDRESSES = [
  `https://user:${PASSWORD}@asp.example.org/v1`,
  `https://${PASSWORD}@asp.example.org/v1`,
  `https://user:p@${PASSWORD}@asp.example.org/v1`,
  `https://user:p/${PASSWORD}@asp.example.org/v1`,
  `https://user:p ${PASSWORD}@asp.example.org/v1`,
  `https:/user:${PASSWORD}@asp.example.org/v1`,
  `ftp://user:${PASSWORD}@asp.example.org/v1`,
  `user:${PASSWORD}@asp.example.org/v1`,
];

/** Every command that is given an address in its words, in a variable or in a file. */
const USES: readonly (readonly [what: string, words: (address: string) => string[], options?: Uses])[] = [
  ['--base-url', (address) => ['profile', 'add', 'work', '--base-url', address]],
  ['--ws-url', (address) => ['profile', 'add', 'work', '--base-url', 'https://x.example/v1', '--ws-url', address]],
  ['a profile to use', (address) => ['profile', 'use', address]],
  ['a profile to show', (address) => ['profile', 'show', address]],
  ['a setting', (address) => ['config', 'set', 'profiles.work.base_url', address]],
  ['a default', (address) => ['config', 'set', 'default_profile', address]],
  ['--profile', (address) => ['whoami', '--profile', address]],
  ['--profile, explained', (address) => ['whoami', '--explain', '--profile', address]],
  ['--profile of login', (address) => ['login', '--profile', address, '--yes']],
  ['--profile of doctor', (address) => ['doctor', '--profile', address]],
  ['--profile of status', (address) => ['status', '--profile', address]],
  ['--profile and --verbose', (address) => ['session', 'list', '--verbose', '--debug', '--profile', address]],
  ['ASP_PROFILE', () => ['session', 'list', '--debug'], { variable: 'ASP_PROFILE' }],
  ['ASP_PROFILE of doctor', () => ['doctor'], { variable: 'ASP_PROFILE' }],
  ['ASP_PROFILE, explained', () => ['whoami', '--explain'], { variable: 'ASP_PROFILE' }],
  ['base_url of config.json', () => ['session', 'list'], { config: 'base_url' }],
  ['base_url of config.json and doctor', () => ['doctor'], { config: 'base_url' }],
  ['default_profile of config.json', () => ['config', 'list'], { config: 'default_profile' }],
  ['default_profile of config.json and doctor', () => ['doctor', '--debug'], { config: 'default_profile' }],
  ['.asp.json', () => ['session', 'list'], { isFolder: true }],
  ['a word too many', (address) => ['version', address]],
  ['an unknown command', (address) => [address]],
  ['--public-url', (address) => ['serve', '--public-url', address]],
  ['--database', (address) => ['serve', '--database', address.replace('https:', 'postgres:')]],
  ['--forward', (address) => ['tail', '--forward', address.replace('https:', 'ftp:')]],
];

interface Uses {
  readonly variable?: string;
  readonly config?: 'base_url' | 'default_profile';
  readonly isFolder?: boolean;
}

function prepare(address: string, { variable, config, isFolder }: Uses): RunOptions {
  const homeDirectory = freshHome();
  const settings = config === 'base_url' ? { profiles: { work: { base_url: address } } } : { default_profile: address };
  if (config !== undefined) {
    mkdirSync(join(homeDirectory, '.config/asp-cli'), { recursive: true, mode: 0o700 });
    writeFileSync(join(homeDirectory, '.config/asp-cli/config.json'), JSON.stringify(settings), { mode: 0o600 });
  }
  if (isFolder === true) writeFileSync(join(homeDirectory, '.asp.json'), JSON.stringify({ profile: address }));
  const environment = { ASP_RETRIES: '0', ...(variable !== undefined && { [variable]: address }) };
  return { environment, machine: { homeDirectory, workingDirectory: homeDirectory } };
}

describe('the password of an address', () => {
  const uses = USES.map(([what, words, options = {}]) => ({ what, words, options }));
  it.each(uses)('is in no output of a command that refuses it: $what', async ({ words, options }) => {
    for (const address of ADDRESSES)
      for (const format of [[], ['--json']]) {
        const argv = [...words(address), ...format];
        const { out, err } = await runWords(argv, prepare(address, options));
        expect(out + err).not.toBe('');
        expect(out + err, argv.join(' ')).not.toContain(PASSWORD);
      }
  });

  it('of a proxy is in no output of a command that cannot reach it', async () => {
    const environment = {
      HTTPS_PROXY: `http://user:${PASSWORD}@127.0.0.1:9`,
      ASP_PROFILE: 'https://asp.example.org/v1',
      ASP_TOKEN: 'token-of-the-test',
      ASP_RETRIES: '0',
    };
    for (const argv of [['doctor'], ['session', 'list', '--debug'], ['session', 'list', '--json', '--debug']]) {
      const { code, out, err } = await runWords(argv, { environment });
      expect(code).not.toBe(0);
      expect(out + err).toContain('127.0.0.1:9');
      expect(out + err).not.toContain(PASSWORD);
    }
    const broken = { ...environment, HTTPS_PROXY: `http://user:${PASSWORD}@:x` };
    const { out, err } = await runWords(['doctor', '--offline'], { environment: broken });
    expect(out + err).not.toContain(PASSWORD);
  });

  it('is hidden, and handles, ports and other text around it are not', () => {
    const kept = ['https://asp.example.org:8443/v1/agents/@demo.echo', 'mailto:me@example.org', 'asp at: @demo.echo'];
    for (const text of kept) expect(hidePasswords(text)).toBe(text);
    expect(hidePasswords("'https://user:secret@asp.example.org/v1' is wrong.")).toBe(
      "'https://[redacted]@asp.example.org/v1' is wrong.",
    );
  });
});
