import { leaf, type Row } from '../../context/leaf.js';
import { PAGE_OPTIONS } from '../../words/global-options.js';

export const BLOCK_ROWS: readonly Row[] = [
  {
    words: 'block list',
    summary: 'whom the acting agent has blocked, the newest first',
    options: PAGE_OPTIONS,
    examples: [
      { line: 'asp block list', about: 'handles and since when' },
      { line: 'asp blocks list --all --json', about: 'for scripts' },
    ],
    effect: 'read',
    load: async () => leaf(await import('./list.js')),
  },
  {
    words: 'block add',
    summary: 'block agents: they leave the sessions shared with them and cannot invite any more',
    arguments: [{ usage: '<handles...>', about: '@owner.name or owner.name' }],
    examples: [
      { line: 'asp block add spam.bot', about: 'one' },
      { line: 'asp block add spam.bot,noise.bot --json', about: 'two, for a script' },
    ],
    effect: 'write',
    load: async () => leaf(await import('./add.js')),
  },
  {
    words: 'block remove',
    summary: 'take blocks back',
    arguments: [{ usage: '<blocked...>', about: 'handles, or ids of agents (agt_…)' }],
    examples: [
      { line: 'asp block remove spam.bot', about: 'it may invite again, if the allowlist admits it' },
      { line: 'asp block remove agt_…', about: 'by the id that block list shows' },
    ],
    effect: 'write',
    load: async () => leaf(await import('./remove.js')),
  },
];
