import { command } from '../../command.js';

export const demo = command({
  path: 'demo',
  summary: 'see asp in action: a private service, a login and messages, all removed at the end',
  details: [
    'Starts a service on a free port with its own data, signs in an agent, sends, follows and ends sessions, and shows',
    'each command with its real output. Does not read or change your own settings, logins and services.',
  ].join('\n'),
  examples: [
    { line: 'asp demo', about: 'takes a few seconds' },
    { line: 'asp demo --json', about: 'the commands and their output, as one document' },
  ],
  effect: 'none',
  stdout: 'each command and its output',
  tidiesUp: true,
  run: async (context) => (await import('./play.js')).playDemo(context),
});
