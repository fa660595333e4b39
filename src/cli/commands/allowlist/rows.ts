import { leaf, type Row } from '../../context/leaf.js';

const ENTRIES = { usage: '<entries...>', about: 'handles, or @owner.* for every agent of an owner' };

export const ALLOWLIST_ROWS: readonly Row[] = [
  {
    words: 'allowlist list',
    summary: 'who may reach the acting agent while its policy is allowlist',
    examples: [
      { line: 'asp allowlist list', about: 'one entry a line' },
      { line: 'asp -a ops.bot allowlist list > ops.allow', about: 'into a file that apply takes' },
    ],
    effect: 'read',
    load: async () => leaf(await import('./list.js')),
  },
  {
    words: 'allowlist add',
    summary: 'let agents reach the acting agent',
    arguments: [ENTRIES],
    examples: [
      { line: 'asp allowlist add alice.bot bob.bot', about: 'two agents' },
      { line: "asp allowlist add '@alice.*'", about: 'every agent of an owner' },
    ],
    effect: 'write',
    load: async () => leaf(await import('./add.js')),
  },
  {
    words: 'allowlist remove',
    summary: 'take entries off the list',
    arguments: [ENTRIES],
    examples: [
      { line: 'asp allowlist remove bob.bot', about: 'it must stand there as it is typed' },
      { line: "asp allowlist remove '@alice.*' --json", about: 'for a script' },
    ],
    effect: 'write',
    load: async () => leaf(await import('./remove.js')),
  },
  {
    words: 'allowlist apply',
    summary: 'bring the list to what a file says: one entry a line, # for remarks',
    details: 'Prints what was added (+) and removed (-). Without --prune nothing is removed.',
    arguments: [{ usage: '<file|->', about: 'the file, or - for standard input' }],
    options: [{ flags: '--prune', about: 'remove what the file does not name' }],
    examples: [
      { line: 'asp allowlist apply ops.allow --prune --dry-run', about: 'what would change' },
      { line: 'git show main:ops.allow | asp allowlist apply - --prune', about: 'from a repository' },
    ],
    effect: 'write',
    load: async () => leaf(await import('./apply.js')),
  },
  {
    words: 'allowlist check',
    summary: 'whether the policy and the list of the acting agent admit a handle',
    details: 'Prints the entry that admits it, or open; exit 3 when nothing does. A block is another matter.',
    arguments: [{ usage: '<handle>', about: '@owner.name or owner.name' }],
    examples: [
      { line: 'asp allowlist check alice.bot', about: 'which entry lets it in' },
      { line: 'asp allowlist check alice.bot -q || asp allowlist add alice.bot', about: 'in a script' },
    ],
    effect: 'read',
    load: async () => leaf(await import('./check.js')),
  },
];
