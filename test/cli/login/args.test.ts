import { describe, expect, it } from 'vitest';

import { findCommand } from '../../../src/cli/argv.js';
import { PROGRAM } from '../../../src/cli/program.js';
import { AGENT_SCOPES } from '../../../src/wire/scope.js';
import { optionsOf, runWords } from '../captured-run.js';

const READING = ['agents:read', 'sessions:read', 'allowlist:read', 'realtime:read'];

describe('words become options: identity', () => {
  const table: [line: string, options: object][] = [
    [
      'login',
      {
        handle: undefined,
        opensBrowser: true,
        callbackPort: 0,
        scopes: AGENT_SCOPES,
        store: undefined,
        isStart: false,
        finish: undefined,
      },
    ],
    ['login alice.bot', { handle: '@alice.bot' }],
    ['login @alice.bot --no-browser', { handle: '@alice.bot', opensBrowser: false }],
    ['login --browser firefox', { opensBrowser: true, browserCommand: 'firefox' }],
    ['login --callback-port 4000', { callbackPort: 4000, callbackHost: undefined }],
    ['login --callback-host 0.0.0.0 --callback-port 4000', { callbackPort: 4000, callbackHost: '0.0.0.0' }],
    ['login --scopes sessions:read,realtime:read', { scopes: ['sessions:read', 'realtime:read'] }],
    ['login --scopes "sessions:read realtime:read"', { scopes: ['sessions:read', 'realtime:read'] }],
    ['login --read-only', { scopes: READING }],
    ['login --store file', { store: 'file' }],
    ['login --start', { isStart: true }],
    ['login --finish -', { finish: '-' }],
    ['logout', { handles: [], isAll: false, isLocalOnly: false }],
    ['logout alice.bot,@bob.bot carol.bot', { handles: ['@alice.bot', '@bob.bot', '@carol.bot'] }],
    ['logout --all --local-only', { isAll: true, isLocalOnly: true }],
    ['whoami', { isOffline: false, isExplaining: false, isShort: false }],
    ['whoami --offline --explain', { isOffline: true, isExplaining: true }],
    ['whoami --short', { isShort: true }],
    ['auth status', {}],
    ['auth token', { resource: 'api', minTtlMs: undefined, isHeader: false }],
    ['auth token --resource ws --min-ttl 10m --header', { resource: 'ws', minTtlMs: 600_000, isHeader: true }],
    ['auth refresh', { handle: undefined, scopes: undefined }],
    ['auth refresh alice.bot --scopes sessions:read', { handle: '@alice.bot', scopes: ['sessions:read'] }],
    ['auth clients', {}],
    ['use alice.bot', { handle: '@alice.bot', isHere: false, isUnset: false }],
    ['use alice.bot --here', { handle: '@alice.bot', isHere: true }],
    ['use --unset --here', { handle: undefined, isHere: true, isUnset: true }],
  ];
  for (const [line, options] of table)
    it(`asp ${line}`, async () => expect(await optionsOf(line)).toMatchObject(options));

  const refused: [line: string, said: RegExp][] = [
    ['login Alice.Bot', /not a handle/],
    ['login a.b c.d', /at most 1/],
    ['login --start --finish -', /cannot be used together/],
    ['login --start --callback-port 8000', /--start and --callback-port cannot be used together/],
    ['login --finish - --scopes sessions:read', /--finish and --scopes cannot be used together/],
    ['login --finish - --read-only', /--finish and --read-only cannot be used together/],
    ['login --finish - --callback-port 8000', /--finish and --callback-port cannot be used together/],
    ['login alice.bot --finish -', /--finish and a handle cannot be used together/],
    ['login --scopes sessions:read --read-only', /cannot be used together/],
    ['login --scopes everything', /'everything' is not a scope/],
    ['login --scopes ""', /not a scope/],
    ['login --store cloud', /is not one of/],
    ['login --callback-port 70000', /not a whole number/],
    ['login --callback-host 0.0.0.0', /--callback-host needs --callback-port\./],
    [
      'login --callback-host 0.0.0.0 --callback-port 0',
      /--callback-host needs --callback-port with a port other than 0/,
    ],
    ['login --callback-host my-machine --callback-port 8000', /'my-machine' is not an IP address/],
    ['login --start --callback-host 0.0.0.0', /--start and --callback-host cannot be used together/],
    ['login --dry-run', /not an option/],
    ['logout --all alice.bot', /cannot be used together/],
    ['logout sess_1', /is a session id, but a handle/],
    ['whoami --explain --short', /cannot be used together/],
    ['whoami alice.bot', /takes no arguments/],
    ['auth token --resource files', /is not one of/],
    ['auth token --min-ttl soon', /not a duration/],
    ['auth refresh --scopes everything', /not a scope/],
    ['use --unset alice.bot', /cannot be used together/],
    ['use alice', /not a handle/],
  ];
  for (const [line, said] of refused)
    it(`asp ${line} is refused with exit 2`, async () => {
      const { code, out, err } = await runWords(line);
      expect(err).toMatch(said);
      expect({ code, out }).toEqual({ code: 2, out: '' });
    });
});

describe('daily verbs are exact aliases', () => {
  const aliases = { login: 'auth login', logout: 'auth logout', whoami: 'auth whoami', use: 'agent use' };
  for (const [daily, words] of Object.entries(aliases))
    it(`asp ${daily} is asp ${words}`, async () => {
      const { command: found } = await findCommand(PROGRAM, [daily]);
      expect(found?.path).toBe(words);
      expect((await findCommand(PROGRAM, words.split(' '))).command).toEqual(found);
    });
});
