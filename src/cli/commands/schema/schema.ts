import { command } from '../../command.js';

export const schema = command({
  path: 'schema',
  summary: "print the JSON Schema of a command's output, an event or an object",
  details: 'Without a name, lists the names. Later versions add fields but never remove them.',
  arguments: [{ usage: '[name...]', about: 'a name: send, session list, session.message, event, error' }],
  examples: [
    { line: 'asp schema session.message', about: 'an event' },
    { line: 'asp schema session list > session-list.schema.json', about: 'the output of a command with --json' },
  ],
  effect: 'none',
  stdout: 'the JSON Schema; without a name, a table of names',
  parse(args) {
    const names = args.argument('name');
    return { name: names.length === 0 ? undefined : names.join(' ') };
  },
  run: async (context, { name }) => (await import('./schemas.js')).printSchema(context, name),
});
