import { leaf, type Row } from '../../context/leaf.js';

export const STATUS_ROWS: readonly Row[] = [
  {
    words: 'status',
    summary: 'service, agent and sign-in at a glance, within a second',
    details: 'Safe in hooks and prompts: it asks nobody anything, renews nothing and exits 0 whatever it finds.',
    options: [{ flags: '--offline', about: 'do not look whether the service answers' }],
    examples: [
      { line: 'asp status', about: 'a few lines' },
      { line: "asp status --offline --json | jq -r '.agent'", about: 'for a prompt' },
    ],
    effect: 'read',
    load: async () => leaf(await import('./status.js')),
  },
];
