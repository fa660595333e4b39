import { leaf, type Row } from '../../context/leaf.js';

export const API_ROWS: readonly Row[] = [
  {
    words: 'api',
    summary: 'send a request of your own to the service, and print the answer',
    details: [
      'The path is below the base URL, without a leading slash. The credential is added, and on writes an idempotency key.',
      'The answer is printed whatever its status; the exit code is that of its error. Paths that leave the base URL are refused.',
    ].join('\n'),
    arguments: [{ usage: '<path>', about: 'sessions, agents/me, sessions/sess_…/events?limit=5' }],
    options: [
      { flags: '-X, --method <method>', about: 'GET; POST when there is something to send' },
      { flags: '-H, --http-header <header>', about: 'name: value', isRepeatable: true },
      { flags: '-i, --include', about: 'print status and headers too' },
      { flags: '--field <name=text>', about: 'a text of the JSON body, or of the query', isRepeatable: true },
      { flags: '--typed <name=json>', about: 'any JSON value of the body, or of the query', isRepeatable: true },
      { flags: '--input <file|->', about: 'the body as it is' },
      { flags: '--paginate', about: 'every page, one document after the other' },
    ],
    examples: [
      { line: 'asp api agents/me', about: 'a GET' },
      { line: `asp api sessions --typed 'invite=["@alice.bot"]' --field topic=hello`, about: 'a POST' },
      { line: "asp api sessions --paginate --json | jq -r '.sessions[].id'", about: 'page by page' },
    ],
    effect: 'write',
    load: async () => leaf(await import('./api.js')),
  },
];
