import { describe, expect, it } from 'vitest';

import { optionsOf, runWords } from '../captured-run.js';

describe('words become options: local service', () => {
  const table: [line: string, options: object][] = [
    ['serve', { flags: {}, configPath: undefined, printsConfig: false, isDetached: false, readyFile: undefined }],
    ['serve --port 0 --data memory', { flags: { port: '0', data: 'memory' } }],
    ['serve --seed alice.bot,bob.bot --seed @alice.bot', { flags: { seed: 'alice.bot,bob.bot,@alice.bot' } }],
    ['serve --demo --behind-proxy', { flags: { demo: 'true', 'behind-proxy': 'true' } }],
    ['serve --detach --ready-file up', { flags: {}, isDetached: true, readyFile: 'up' }],
    ['serve --config c.json --print-config', { flags: {}, configPath: 'c.json', printsConfig: true }],
    ['serve backup b.tar', { file: 'b.tar', data: undefined, isForced: false, withKeys: false }],
    ['serve backup b.tar --data d --force --with-keys', { data: 'd', isForced: true, withKeys: true }],
    ['serve restore b.tar --data d', { file: 'b.tar', data: 'd' }],
    ['serve logs', { last: undefined, isFollowing: false }],
    ['serve logs -n 5 --follow', { last: 5, isFollowing: true }],
    ['serve reset --data d', { data: 'd' }],
    ['serve open', { account: undefined, isOperator: false, opensBrowser: true }],
    ['serve open --account @alice --no-browser', { account: 'alice', isOperator: false, opensBrowser: false }],
    ['serve open --operator', { account: undefined, isOperator: true, opensBrowser: true }],
    ['serve retention', { ageMs: undefined }],
    ['serve retention --older-than 500d', { ageMs: 43_200_000_000 }],
    ['serve keys list', {}],
    ['serve keys rotate', {}],
    ['serve agent add a.b c.d', { handles: ['@a.b', '@c.d'], policy: 'open' }],
    ['serve agent add a.b --policy allowlist --display-name "A B"', { policy: 'allowlist', displayName: 'A B' }],
    ['serve agent remove a.b', { handle: '@a.b' }],
    ['serve agent pause a.b', { handle: '@a.b' }],
    ['serve agent resume @a.b', { handle: '@a.b' }],
    ['serve account show @alice', { account: 'alice' }],
    ['serve account suspend alice', { account: 'alice' }],
    ['serve account resume alice', { account: 'alice' }],
    ['serve account tier alice trusted', { account: 'alice', tier: 'trusted' }],
    ['serve account operator alice yes', { account: 'alice', operator: true }],
    ['serve account operator alice no', { account: 'alice', operator: false }],
    ['serve account export alice a.json --force', { account: 'alice', file: 'a.json', isForced: true }],
    ['serve account remove alice', { account: 'alice', erases: false }],
    ['serve account remove alice --erase', { erases: true }],
    ['serve account reset-password alice', { account: 'alice' }],
    ['serve invite create', { lifetimeMs: 604_800_000 }],
    ['serve invite create --expires 1h', { lifetimeMs: 3_600_000 }],
    ['serve invite revoke lnk_1', { id: 'lnk_1' }],
    ['serve client revoke oac_1', { client: 'oac_1' }],
    ['serve client add a.b', { handle: '@a.b', scopes: undefined }],
    ['serve client add a.b --scopes sessions:read', { scopes: ['sessions:read'] }],
    ['demo', {}],
  ];
  for (const [line, options] of table)
    it(`asp ${line}`, async () => expect(await optionsOf(line)).toMatchObject(options));

  const refused: [line: string, said: RegExp][] = [
    ['serve --port 65536', /not a whole number/],
    ['serve --seed nobody', /not a handle/],
    ['serve --trust nobody', /is not one of/],
    ['serve --presence-grace soon', /not a duration/],
    ['serve --search postgres', /is not one of/],
    ['serve --web-push operator@asp.example', /is not a contact/],
    [`serve --name ${'n'.repeat(41)}`, /is not a name/],
    ['serve --web-push https://localhost/', /is not a contact/],
    ['serve --web-push http://asp.example/', /is not a contact/],
    ['serve --retention 1h', /'1h' is not from 1d to 3660d/],
    ['serve retention --older-than soon', /not a duration/],
    ['serve --log loud', /is not one of/],
    ['serve --metrics-port x', /not a whole number/],
    ['serve backup', /missing required argument/i],
    ['serve backup b.tar --data memory', /nothing to back up/],
    ['serve restore b.tar --data memory', /only to a folder/],
    ['serve logs -n x', /not a whole number/],
    ['serve reset --data memory --yes', /has nothing to delete/],
    ['serve open --account Alice', /not an account/],
    ['serve agent add', /missing required argument/i],
    ['serve agent remove a.b --dry-run', /not an option/],
    ['serve account show Alice', /not an account/],
    ['serve account tier alice paid', /standard or trusted/],
    ['serve account operator alice true', /yes or no/],
    ['serve --sign-up closed', /is not one of/],
    ['serve invite create --expires soon', /not a duration/],
    ['serve invite create --expires 0s', /--expires '0s' is not from 1m to 366d/],
    ['serve client revoke', /missing required argument/i],
    ['serve client add a.b --scopes all', /not a scope/],
    ['serve here', /unknown command|takes no arguments/i],
  ];
  for (const [line, said] of refused)
    it(`asp ${line} is refused with exit 2`, async () => {
      const { code, out, err } = await runWords(line);
      expect(err).toMatch(said);
      expect({ code, out }).toEqual({ code: 2, out: '' });
    });

  for (const line of [
    'serve status',
    'serve stop',
    'serve open',
    'serve logs',
    'serve agent list',
    'serve client add a.b',
    'serve retention',
    'serve keys list',
    'serve keys rotate',
  ])
    it(`asp ${line} without a local service ends with 9 and says how to start one`, async () => {
      const { code, err } = await runWords(`${line} --json`);
      expect({ code, error: JSON.parse(err).error }).toMatchObject({
        code: 9,
        error: { code: 'ASP_LOCAL_NOT_RUNNING', next: ['asp', 'serve'] },
      });
    });
});
