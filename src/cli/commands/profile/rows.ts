import { leaf, type Row } from '../../context/leaf.js';
import type { ArgumentRow, OptionRow } from '../../words/row.js';

const NAME: ArgumentRow = { usage: '<name>', about: 'letters, digits, _ and -' };
const ADDRESSES: readonly OptionRow[] = [
  { flags: '--base-url <url>', about: 'the REST interface: https://…/v1' },
  { flags: '--auth-url <url>', about: 'the authorization server, where discovery is not offered' },
  { flags: '--web-url <url>', about: 'the pages for people' },
  { flags: '--ws-url <url>', about: 'the WebSocket, where it is not published' },
];

export const PROFILE_ROWS: readonly Row[] = [
  {
    words: 'profile list',
    summary: 'the services this machine knows by name',
    examples: [
      { line: 'asp profile list', about: 'a table; the arrow marks the one in use' },
      { line: 'asp profile list --json', about: 'for scripts' },
    ],
    effect: 'none',
    load: async () => leaf(await import('./list.js')),
  },
  {
    words: 'profile show',
    summary: 'the addresses and the agent of one profile',
    arguments: [{ usage: '[name]', about: 'the one in use when it is left out' }],
    examples: [
      { line: 'asp profile show', about: 'the one a command would use here' },
      { line: 'asp profile show work --json', about: 'for scripts' },
    ],
    effect: 'none',
    load: async () => leaf(await import('./show.js')),
  },
  {
    words: 'profile add',
    summary: 'name a service',
    details: 'Its other addresses are found from the base URL. The first profile is used from then on.',
    arguments: [NAME],
    options: ADDRESSES,
    examples: [
      { line: 'asp profile add work --base-url https://api.example.com/v1', about: 'and then: asp login' },
      {
        line: 'asp profile add old --base-url https://old.example.com --auth-url https://id.example.com',
        about: 'a service that does not publish where it is',
      },
    ],
    effect: 'local',
    load: async () => leaf(await import('./add.js')),
  },
  {
    words: 'profile set',
    summary: 'change addresses of a profile',
    details: 'Another base URL drops the other addresses, unless they are given with it. An empty text drops one.',
    arguments: [NAME],
    options: ADDRESSES,
    examples: [
      { line: 'asp profile set work --base-url https://api.example.org/v1', about: 'the service has moved' },
      { line: "asp profile set work --ws-url ''", about: 'find the WebSocket by discovery again' },
    ],
    effect: 'local',
    load: async () => leaf(await import('./set.js')),
  },
  {
    words: 'profile remove',
    summary: 'forget a profile; logins stay until asp logout',
    arguments: [NAME],
    examples: [
      { line: 'asp profile remove old', about: 'the name alone is gone' },
      { line: 'asp logout --all -p old', about: 'before it: end the logins there' },
    ],
    effect: 'local',
    load: async () => leaf(await import('./remove.js')),
  },
  {
    words: 'profile use',
    summary: 'use this profile wherever nothing else is said',
    arguments: [{ usage: '<name>', about: 'a profile, or local for the service on this machine' }],
    examples: [
      { line: 'asp profile use work', about: 'the default from now on' },
      { line: 'asp -p local whoami', about: 'another one for one command' },
    ],
    effect: 'local',
    load: async () => leaf(await import('./use.js')),
  },
];
