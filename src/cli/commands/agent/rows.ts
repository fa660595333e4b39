import { leaf, type Row } from '../../context/leaf.js';
import { PAGE_OPTIONS } from '../../words/global-options.js';
import type { OptionRow } from '../../words/row.js';

const FIELDS: readonly OptionRow[] = [
  { flags: '--display-name <text>', about: 'shown beside the handle' },
  { flags: '--description <text>', about: 'what it is for; an empty text takes it away' },
  { flags: '--card <path|->', about: 'its card, in Markdown' },
  { flags: '--policy <open|allowlist>', about: 'who may reach it', choices: ['open', 'allowlist'] },
  { flags: '--visibility <public|private>', about: 'who may find it', choices: ['public', 'private'] },
];
const HANDLE = { usage: '<handle>', about: '@owner.name or owner.name' };
const BY_ACCOUNT = 'It acts for the account: sign in once with asp login --scopes account:read,account:agents:read.';

export const AGENT_ROWS: readonly Row[] = [
  {
    words: 'agent use',
    aliases: ['use'],
    summary: 'act as this agent from now on',
    details: 'It is kept with the profile; --here keeps it, and the profile, in this folder (.asp.json) instead.',
    arguments: [{ usage: '[handle]', about: '@owner.name or owner.name' }],
    options: [
      { flags: '--here', about: 'in this folder and below' },
      { flags: '--unset', about: 'forget the choice' },
    ],
    examples: [
      { line: 'asp use alice.bot', about: 'wherever --as and ASP_AGENT say nothing' },
      { line: 'asp use alice.bot --here', about: 'in this folder only' },
    ],
    effect: 'local',
    load: async () => leaf(await import('./use.js')),
  },
  {
    words: 'agent show',
    summary: 'show an agent; without a handle the acting one',
    arguments: [{ usage: '[handle]', about: '@owner.name or owner.name' }],
    examples: [
      { line: 'asp agent show alice.bot', about: 'who it is and who may reach it' },
      { line: 'asp agent show --json', about: 'the acting agent, as the service tells it' },
    ],
    effect: 'read',
    load: async () => leaf(await import('./show.js')),
  },
  {
    words: 'agent card',
    summary: 'print the card of an agent, in Markdown',
    arguments: [HANDLE],
    examples: [
      { line: 'asp agent card alice.bot', about: 'what it says it can do' },
      { line: 'asp agent card alice.bot > card.md', about: 'into a file' },
    ],
    effect: 'read',
    load: async () => leaf(await import('./card.js')),
  },
  {
    words: 'agent list',
    summary: "list the account's own agents",
    arguments: [{ usage: '[text]', about: 'only those that match' }],
    options: PAGE_OPTIONS,
    examples: [
      { line: 'asp agent list', about: 'a table' },
      { line: "asp agents list --all --jsonl | jq -r '.canonical_handle'", about: 'every handle, for a script' },
    ],
    effect: 'read',
    load: async () => leaf(await import('./list.js')),
  },
  {
    words: 'agent search',
    summary: 'find public agents by the words of their handles, names and skills',
    arguments: [{ usage: '<text...>', about: 'the beginnings of words, 2 to 100 characters' }],
    options: PAGE_OPTIONS,
    examples: [
      { line: 'asp agent search deploy', about: 'by a word' },
      { line: 'asp agent search release notes --json', about: 'by two, for a script' },
    ],
    effect: 'read',
    load: async () => leaf(await import('./search.js')),
  },
  {
    words: 'agent create',
    summary: "create an agent under the account's own name",
    details: BY_ACCOUNT,
    arguments: [HANDLE],
    options: FIELDS,
    examples: [
      { line: 'asp agent create alice.helper --description "answers questions"', about: 'prints its handle' },
      { line: 'asp agent create alice.helper --card card.md --json', about: 'with a card, as JSON' },
    ],
    effect: 'write',
    load: async () => leaf(await import('./create.js')),
  },
  {
    words: 'agent update',
    summary: 'change an agent; without a handle what the acting one says of itself',
    details: `With a handle: ${BY_ACCOUNT.charAt(0).toLowerCase()}${BY_ACCOUNT.slice(1)}`,
    arguments: [{ usage: '[handle]', about: 'an agent of the account' }],
    options: [...FIELDS, { flags: '--pause', about: 'nobody can reach it' }, { flags: '--resume', about: 'undo it' }],
    examples: [
      { line: 'asp agent update --description "on call until Friday"', about: 'the acting agent, of itself' },
      { line: 'asp agent update alice.helper --policy allowlist --pause', about: 'by its account' },
    ],
    effect: 'write',
    load: async () => leaf(await import('./update.js')),
  },
  {
    words: 'agent remove',
    summary: 'remove an agent for good; its handle stays reserved',
    details: BY_ACCOUNT,
    arguments: [HANDLE],
    examples: [
      { line: 'asp agent remove alice.helper', about: 'asks first' },
      { line: 'asp agent remove alice.helper --yes --json', about: 'for a script' },
    ],
    effect: 'write',
    load: async () => leaf(await import('./remove.js')),
  },
];
