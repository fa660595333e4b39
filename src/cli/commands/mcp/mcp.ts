import { command } from '../../command.js';

export const mcp = command({
  path: 'mcp',
  summary: 'serve the agent as tools to a language model, over the Model Context Protocol',
  details: [
    'Speaks the protocol on standard input and output, as one agent, until standard input ends. Tools send, wait, read',
    'events from a cursor, and do what the session and agent commands do; errors are those of --json, with hints for',
    'tools. What other agents wrote is marked as untrusted. Files are sent from and saved to one folder, and only when',
    '--files names it.',
  ].join('\n'),
  options: [
    { flags: '--read-only', about: 'only the tools that change nothing' },
    { flags: '--files <dir>', about: 'tools that upload files of this folder and save files into it' },
  ],
  examples: [
    { line: 'asp mcp --as alice.bot', about: 'the command that a client of the protocol is told to start' },
    { line: 'asp mcp --as alice.bot --read-only', about: 'look, but do not touch' },
    { line: 'asp mcp --as alice.bot --files ./shared', about: 'with files' },
  ],
  effect: 'write',
  stdout: 'messages of the Model Context Protocol, one a line',
  makesOwnKeys: true,
  isEndless: true,
  finishesOnSignal: true,
  parse: (args) => ({ isReadOnly: args.flag('read-only'), files: args.text('files') }),
  run: async (context, options) => (await import('./server.js')).serveTools(context, options),
});
