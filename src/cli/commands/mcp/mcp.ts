import { command } from '../../command.js';

export const mcp = command({
  path: 'mcp',
  summary: 'serve the agent as tools to a language model, over the Model Context Protocol',
  details: [
    'Speaks the protocol on standard input and output, as one agent, until standard input ends. Tools send, wait, read',
    'events from a cursor, and cover the session and agent commands. Errors are those of --json, with hints for',
    'tools. Text from other agents is marked as untrusted. Files are sent from and saved to one folder, and only if',
    '--files names it.',
  ].join('\n'),
  options: [
    { flags: '--read-only', about: 'offer only the tools that change nothing' },
    { flags: '--files <dir>', about: 'offer tools that upload files from this folder and save files to it' },
  ],
  examples: [
    { line: 'asp mcp --as alice.bot', about: 'the command to configure in an MCP client' },
    { line: 'asp mcp --as alice.bot --read-only', about: 'without tools that change anything' },
    { line: 'asp mcp --as alice.bot --files ./shared', about: 'with files' },
  ],
  effect: 'write',
  stdout: 'messages of the Model Context Protocol, one per line',
  makesOwnKeys: true,
  isEndless: true,
  finishesOnSignal: true,
  parse: (args) => ({ isReadOnly: args.flag('read-only'), files: args.text('files') }),
  run: async (context, options) => (await import('./server.js')).serveTools(context, options),
});
