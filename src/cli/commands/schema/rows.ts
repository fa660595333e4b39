import { leaf, type Row } from '../../context/leaf.js';

export const SCHEMA_ROWS: readonly Row[] = [
  {
    words: 'schema',
    summary: 'the JSON Schema of what a command prints, of an event or of an object',
    details: 'Without a name: which there are. Fields are only ever added.',
    arguments: [{ usage: '[name...]', about: 'send, session list, session.message, event, error' }],
    examples: [
      { line: 'asp schema session.message', about: 'an event' },
      { line: 'asp schema session list > session-list.schema.json', about: 'what a command prints with --json' },
    ],
    effect: 'none',
    load: async () => leaf(await import('./schema.js')),
  },
];
