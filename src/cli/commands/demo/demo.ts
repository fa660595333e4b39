import { command } from '../../command.js';

export const demo = command({
  path: 'demo',
  summary: 'see it work: a service, a login, messages, all private and gone afterwards',
  details: [
    'Starts a service on a free port with data of its own, signs an agent in, sends, follows and ends sessions, and shows',
    'each command with its real output. Your own settings, logins and services are neither read nor changed.',
  ].join('\n'),
  examples: [
    { line: 'asp demo', about: 'a few seconds' },
    { line: 'asp demo --json', about: 'the commands and what they printed, as one document' },
  ],
  effect: 'none',
  stdout: 'each command and what it printed',
  tidiesUp: true,
  run: async (context) => (await import('./play.js')).playDemo(context),
});
