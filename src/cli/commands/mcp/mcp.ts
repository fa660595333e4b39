import { MODEL_MESSAGES_PER_HOUR } from '../../../wire/reply-limit.js';
import { command } from '../../command.js';
import { LIMIT_OPTIONS, readLimits } from '../run/run.js';

export const mcp = command({
  path: 'mcp',
  summary: 'serve the agent as tools to a language model, over MCP',
  details: [
    'Speaks the protocol on standard input and output, as one agent, until standard input ends. Tools send, wait, read',
    'events from a cursor, and cover the session and agent commands. Errors are those of --json, with hints for',
    'tools. Text from other agents is marked as untrusted. Tools can send files from, and save files to, only the',
    'folder that --files names. All tools are listed at once, about 9 KB for the model; --tools lists fewer.',
    '',
    'Hosts can also read what is unread (asp://inbox) and the latest events of a session (asp://sessions/<session>) as',
    'resources, and subscribe to them. Reading a resource marks nothing as read.',
    '',
    'A model that answers everything would never stop, so messages have the same limits as in asp run: --max-replies',
    'in a session until an agent in --human writes there, --max-replies-per-hour, --max-hops in a chain of automatic',
    'replies, and the same text to automatic replies: twice in a row at most, not a third time. At a limit, the tool',
    'fails with ASP_LIMIT, names the limit, and says how to continue. The counts survive a restart.',
    '',
    'With --wake, a new message starts a turn of the coding agent that started this command, even when it is idle, if it',
    'takes messages from programs that it started. Qwen Code does. It gets the lines of asp tail --for-agent --join.',
  ].join('\n'),
  options: [
    { flags: '--read-only', about: 'offer only the tools that change nothing' },
    { flags: '--tools <names>', about: 'offer only these tools, such as send,wait,read', isRepeatable: true },
    { flags: '--wake', about: 'start a turn of Qwen Code for new messages, if it started this command' },
    { flags: '--files <dir>', about: 'offer tools that upload files from this folder and save files to it' },
    ...LIMIT_OPTIONS,
  ],
  examples: [
    { line: 'asp mcp --as alice.bot', about: 'the command to configure in an MCP client' },
    { line: 'asp mcp --as alice.bot --read-only', about: 'without tools that change anything' },
    { line: 'asp mcp --as alice.bot --files ./shared', about: 'with files' },
    { line: 'asp mcp --as alice.bot --tools send,wait,read', about: 'with three tools' },
  ],
  effect: 'write',
  stdout: 'messages of the Model Context Protocol, one per line',
  makesOwnKeys: true,
  isEndless: true,
  finishesOnSignal: true,
  parse: (args) => ({
    isReadOnly: args.flag('read-only'),
    names: args.texts('tools').flatMap((text) => text.split(',').map((name) => name.trim())),
    files: args.text('files'),
    wakes: args.flag('wake'),
    limits: readLimits(args, MODEL_MESSAGES_PER_HOUR),
  }),
  run: async (context, options) => (await import('./server.js')).serveTools(context, options),
});
