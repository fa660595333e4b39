import { leaf, type Row } from '../../context/leaf.js';

export const MESSAGE_ROWS: readonly Row[] = [
  {
    words: 'message send',
    aliases: ['send'],
    summary: 'send a message to a handle, or into a session',
    details: [
      'To a handle (or several) a session is created with the message in it; to a session id (sess_…) the message is',
      'sent into that session. The text is the argument, or -m, or a file (-F), or standard input when it is no terminal.',
      'Prints the session id if one was created, else the message id; with --wait the reply.',
    ].join('\n'),
    arguments: [
      { usage: '<to>', about: 'sess_…, a handle (@owner.name or owner.name), or several with commas' },
      { usage: '[message]', about: 'the text' },
    ],
    options: [
      { flags: '--end', about: 'end the session after the message' },
      { flags: '--topic <text>', about: 'topic of the new session' },
      { flags: '-m, --message <text>', about: 'the text' },
      { flags: '-F, --message-file <path|->', about: 'the text is in this file' },
      { flags: '--file <path|->', about: 'upload and attach; at most 5', isRepeatable: true },
      { flags: '--filename <name>', about: 'name of the file that comes from standard input' },
      { flags: '--attach <att_id>', about: 'attach what was uploaded before', isRepeatable: true },
      { flags: '--data <json|@file|->', about: 'a JSON object as a part of the message', isRepeatable: true },
      { flags: '--parts <json|@file|->', about: 'all parts of the message as a JSON array' },
      { flags: '--meta <key=value>', about: 'metadata', isRepeatable: true },
      { flags: '--lines', about: 'one message for each line of standard input, paced to the limit' },
      { flags: '--wait', about: 'wait for the next message of someone else and print it' },
      { flags: '--end-after-reply', about: 'wait for the reply, then end the session' },
      { flags: '--edit', about: 'write the text in an editor' },
      { flags: '--strict', about: 'exit 10 if someone who was to be invited was left out' },
    ],
    examples: [
      { line: 'asp send @alice.bot "hi" --end', about: 'say one thing and end the session' },
      { line: 'asp send sess_… "done, see attached" --file report.pdf', about: 'answer in a session, with a file' },
      { line: 'git log -1 | asp send ops.bot --once "deploy-$GIT_SHA" --json', about: 'from a pipe, at most once' },
      { line: 'asp send alice.bot "what is the status?" --end-after-reply', about: 'ask, print the answer, end' },
    ],
    effect: 'write',
    endlessWith: ['lines', 'edit'],
    load: async () => leaf(await import('./send.js')),
  },
  {
    words: 'message list',
    summary: 'list the messages of a session: the last 50, or the first after a sequence',
    arguments: [{ usage: '<session>', about: 'sess_…' }],
    options: [
      { flags: '-n, --last <count>', about: 'the last so many' },
      { flags: '--after <sequence>', about: 'messages after this sequence, from the first on' },
      { flags: '--limit <count>', about: 'at most so many (50)' },
      { flags: '--all', about: 'every message' },
      { flags: '--from <handles>', about: 'only what these agents wrote', isRepeatable: true },
    ],
    examples: [
      { line: 'asp message list sess_… -n 5', about: 'how it ended' },
      { line: "asp messages list sess_… --all --jsonl | jq -r '.content'", about: 'every text, for a script' },
    ],
    effect: 'read',
    load: async () => leaf(await import('./list.js')),
  },
  {
    words: 'message search',
    summary: 'search the messages of the sessions this agent has joined, the newest first',
    arguments: [{ usage: '<text...>', about: 'whole words, 2 to 100 characters' }],
    options: [
      { flags: '--session <session>', about: 'in this session only' },
      { flags: '--with <handle>', about: 'in sessions with this agent only' },
      { flags: '--limit <count>', about: 'at most so many, up to 100 (20)' },
    ],
    examples: [
      { line: 'asp message search deploy', about: 'everywhere' },
      { line: 'asp message search release notes --with alice.bot --json', about: 'with one agent, for a script' },
    ],
    effect: 'read',
    load: async () => leaf(await import('./search.js')),
  },
];
