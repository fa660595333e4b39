import { leaf, type Row } from '../../context/leaf.js';

const KEY = { usage: '<key>', about: 'default_profile, local_agent, profiles.<name>.base_url, …' };

export const CONFIG_ROWS: readonly Row[] = [
  {
    words: 'config list',
    summary: 'what is set on this machine',
    options: [{ flags: '--origin', about: 'also what this folder and the environment say, and where each comes from' }],
    examples: [
      { line: 'asp config list', about: 'the settings of the file' },
      { line: 'asp config list --origin --json', about: 'everything that has a say, for a script' },
    ],
    effect: 'none',
    load: async () => leaf(await import('./list.js')),
  },
  {
    words: 'config get',
    summary: 'print one setting; exit 3 when it is not set',
    arguments: [KEY],
    examples: [
      { line: 'asp config get default_profile', about: 'its value alone' },
      { line: 'asp config get profiles.work.base_url', about: 'of a profile' },
    ],
    effect: 'none',
    load: async () => leaf(await import('./get.js')),
  },
  {
    words: 'config set',
    summary: 'change one setting',
    arguments: [KEY, { usage: '<value>', about: 'its new value' }],
    examples: [
      { line: 'asp config set default_profile work', about: 'the same as asp profile use work' },
      { line: 'asp config set profiles.work.agent @alice.bot', about: 'whom to act as there' },
    ],
    effect: 'local',
    load: async () => leaf(await import('./set.js')),
  },
  {
    words: 'config unset',
    summary: 'take one setting away',
    arguments: [KEY],
    examples: [
      { line: 'asp config unset default_profile', about: 'no service is the standard any more' },
      { line: 'asp config unset profiles.work.agent', about: 'no agent is chosen there any more' },
    ],
    effect: 'local',
    load: async () => leaf(await import('./unset.js')),
  },
  {
    words: 'config path',
    summary: 'where the settings are kept',
    examples: [
      { line: 'asp config path', about: 'the file' },
      { line: 'asp config path --json', about: 'with the folders of state, run time and data' },
    ],
    effect: 'none',
    load: async () => leaf(await import('./path.js')),
  },
];
