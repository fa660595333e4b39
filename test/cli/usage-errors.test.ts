import { describe, expect, it } from 'vitest';

import { AGENT_VARIABLES } from '../../src/cli/context/agent-hint.js';
import { PROGRAM } from '../../src/cli/program.js';
import { runWords } from './captured-run.js';

const SESSION = `sess_${'0'.repeat(26)}`;
const MESSAGE = `msg_${'0'.repeat(26)}`;
const ATTACHMENT = `att_${'0'.repeat(26)}`;

interface Failure {
  code: string;
  message: string;
  hint?: string;
  next?: string[];
}

/** The failure in the last line of stderr; notes come before it. */
const lastErrorIn = (err: string): Failure =>
  (JSON.parse(err.trimEnd().split('\n').at(-1) ?? '') as { error: Failure }).error;

async function refusalOf(words: string | readonly string[]): Promise<Failure> {
  const { code, out, err } = await runWords([...(typeof words === 'string' ? words.split(' ') : words), '--json']);
  expect({ code, out }).toEqual({ code: 2, out: '' });
  const { error } = JSON.parse(err) as { error: Failure };
  expect(error.code).toBe('ASP_USAGE');
  return error;
}

describe('a usage error names what was typed', () => {
  const table: [words: string, message: string, next: string][] = [
    ['whoami me', "asp whoami takes no arguments, but 'me' was given.", 'asp whoami --help'],
    ['auth whoami me', "asp auth whoami takes no arguments, but 'me' was given.", 'asp auth whoami --help'],
    ['login a.b c.d', 'asp login takes at most 1 argument, not 2.', 'asp login --help'],
    ['tail --nosuch', "'--nosuch' is not an option of asp tail.", 'asp tail --help'],
    ['session tail --nosuch', "'--nosuch' is not an option of asp session tail.", 'asp session tail --help'],
    ['sessions lsit', "'lsit' is not a command of asp sessions.", 'asp sessions list --help'],
    ['sessions --limit', "'--limit' needs a command.", 'asp sessions --help'],
    ['serve agents', "Unknown command 'agents' for asp serve.", 'asp serve agent --help'],
    ['serve stats', "Unknown command 'stats' for asp serve.", 'asp serve status --help'],
    ['serve nonsense', "Unknown command 'nonsense' for asp serve.", 'asp serve --help'],
    ['--halp', "'--halp' is not an option of asp.", 'asp --help'],
    ['--foo', "'--foo' is not an option of asp.", 'asp --help'],
    ['sessions --foo=1', "'--foo=1' is not an option of asp sessions.", 'asp sessions --help'],
    ['-n', "'-n' needs a command.", 'asp --help'],
    ['--as=a.b', "'--as=a.b' needs a command.", 'asp --help'],
    ['block @a.b', "'@a.b' is not a command of asp block.", 'asp block add --help'],
    ['knocks a.b', "'a.b' is not a command of asp knocks.", 'asp knocks dismiss --help'],
    [
      'serve trigger message a.b',
      'asp serve trigger takes at most 1 argument, not 2.',
      'asp serve trigger message --to a.b --json',
    ],
    [`session ${SESSION}`, `'${SESSION}' is not a command of asp session.`, 'asp session show --help'],
    ['api POST /sessions', 'asp api takes at most 1 argument, not 2.', 'asp api -X POST /sessions --json'],
    ['logs', "'logs' is not a command of asp.", 'asp serve logs --help'],
    ['ls', "'ls' is not a command of asp.", 'asp session list --help'],
    ['get', "'get' is not a command of asp.", 'asp session show --help'],
    ['rm', "'rm' is not a command of asp.", 'asp agent remove --help'],
    ['end', "'end' is not a command of asp.", 'asp session end --help'],
    ['listen', "'listen' is not a command of asp.", 'asp tail --help'],
    ['serve agent ad', "'ad' is not a command of asp serve agent.", 'asp serve agent add --help'],
  ];
  for (const [words, message, next] of table)
    it(`asp ${words}`, async () => expect(await refusalOf(words)).toMatchObject({ message, next: next.split(' ') }));

  it('names the option that limits a list', async () => {
    for (const words of ['session list -n 5', 'inbox -n 5', 'block list -n 5'])
      expect((await refusalOf(words)).hint).toBe('did you mean --limit?');
  });

  it('shows the command that takes the name of an agent', async () => {
    expect((await refusalOf('block @a.b')).hint).toBe("did you mean 'block add @a.b'?");
  });

  it('with forgotten quotes shows where they belong', async () => {
    expect(await refusalOf('send a.b how are -q you --end')).toMatchObject({
      message: 'asp send takes at most 2 arguments, not 4.',
      hint: 'put a message with spaces in quotes.',
      next: ['asp', 'send', 'a.b', 'how are you', '-q', '--end', '--json'],
    });
  });
});

describe('The error for a value that cannot be', () => {
  it.each([
    ['status --color sometimes', "--color 'sometimes' is not one of auto, always, never.", undefined],
    ['session list --state activ', "--state 'activ' is not one of active, ended, invited.", 'did you mean active?'],
    ['tail -1', "'-1' is not an option.", 'the last events are -n 1.'],
    [
      `session wait ${SESSION} --for joined --fence`,
      '--fence says how a message is printed.',
      'use --for message or --for reply.',
    ],
    ['explain 3', '3 is an exit code, which several errors share.', 'the error names its own code on its last line.'],
    ['serve --behind-proxy=true', '--behind-proxy takes no value.', undefined],
    ['serve --prot=8080', "'--prot=8080' is not an option of asp serve.", 'did you mean --port?'],
    ['send Alice.Bot hi', "'Alice.Bot' is not a handle.", 'did you mean @alice.bot?'],
    ['send alice/bot hi', "'alice/bot' is not a handle.", 'did you mean @alice.bot?'],
    ['send alice@bot hi', "'alice@bot' is not a handle.", 'did you mean @alice.bot?'],
  ])('asp %s', async (words, message, hint) => {
    const refusal = await refusalOf(words);
    expect({ message: refusal.message, hint: refusal.hint }).toEqual({ message, hint });
  });

  it.each([
    ['send a.b hi --timeout', '--timeout needs a value.'],
    ['tail -n', '--last needs a value.'],
  ])('that is missing names its option: asp %s', async (words, message) => {
    const { code, err } = await runWords(`--json ${words}`);
    expect({ code, message: lastErrorIn(err).message }).toEqual({ code: 2, message });
  });

  it('names the variable that the value came from', async () => {
    const environment = { ASP_AGENT: 'bob', ASP_PROFILE: 'http://127.0.0.1:9/v1' };
    const { code, err } = await runWords('whoami --json', { environment });
    expect(code).toBe(2);
    expect(lastErrorIn(err).message).toBe("ASP_AGENT 'bob' is not a handle.");
  });

  it.each([
    [
      ['send', 'Alice.Bot', 'hi'],
      ['asp', 'send', '@alice.bot', 'hi'],
    ],
    [
      ['ask', '@Alice.Bot', 'hi', '--fence'],
      ['asp', 'ask', '@alice.bot', 'hi', '--fence'],
    ],
    [
      ['send', 'demo.echo,alice/bot', 'hi'],
      ['asp', 'send', 'demo.echo,@alice.bot', 'hi'],
    ],
    [
      ['agent', 'show', 'alice@bot'],
      ['asp', 'agent', 'show', '@alice.bot'],
    ],
  ])('a misspelled handle: the command as it was meant: %j', async (words, next) => {
    const { err } = await runWords(words);
    expect(err).toContain(`try:  ${next.join(' ')}\n`);
  });

  it('several handles need commas', async () => {
    expect((await refusalOf(['send', 'alice.bot demo.echo', 'hi'])).hint).toBe('separate several handles with commas.');
  });
});

describe('The error for words in the wrong place', () => {
  it('joins several recipients with commas', async () => {
    expect(await refusalOf('send alice.bot @bob.bot hi there --end')).toMatchObject({
      hint: 'separate several recipients with commas.',
      next: ['asp', 'send', 'alice.bot,@bob.bot', 'hi there', '--end', '--json'],
    });
  });

  it.each([
    ['alice.bot', ['asp', 'send', 'alice.bot', 'hi']],
    [SESSION, ['asp', 'send', SESSION, 'hi']],
  ])('puts a recipient after the text first: %s', async (recipient, next) => {
    expect(await refusalOf(['send', 'hi', recipient])).toMatchObject({ hint: 'the recipient comes first.', next });
  });
});

it.each(['report', 'report.txt', './report.txt'])('asp send --attach %s: a path is for --file', async (path) => {
  expect(await refusalOf(['send', 'alice.bot', 'hi', '--attach', path])).toMatchObject({
    message: `--attach takes the id of an uploaded file (att_…), and '${path}' is not one.`,
    hint: 'to upload a file and attach it, use --file.',
  });
});

describe('an id or a handle in the wrong argument is reported with the command it belongs to', () => {
  const table: [words: string, message: RegExp, next: string | undefined][] = [
    [`agent show ${SESSION}`, /is a session id, but a handle/, `asp session show ${SESSION}`],
    [`block add ${SESSION}`, /is a session id, but a handle/, `asp session show ${SESSION}`],
    [
      `session invite ${SESSION} ${ATTACHMENT}`,
      /is an attachment id, but a handle/,
      `asp attachment show ${ATTACHMENT}`,
    ],
    [`login ${MESSAGE}`, /is a message id, but a handle/, 'asp message search --help'],
    [`whoami --as ${SESSION}`, /is a session id, but a handle/, `asp session show ${SESSION}`],
    ['session create sess_1', /is a session id, but a handle/, 'asp session show'],
    ['attachment show alice.bot', /is a handle, but an attachment id/, 'asp agent show alice.bot'],
    [`session show ${ATTACHMENT}`, /is an attachment id, but a session id/, `asp attachment show ${ATTACHMENT}`],
    [`send ${MESSAGE} hi`, /is a message id, but a session id/, 'asp message search --help'],
  ];
  for (const [words, message, next] of table)
    it(`asp ${words}`, async () => {
      const error = await refusalOf(words);
      expect(error.message).toMatch(message);
      expect(error.next?.join(' ')).toBe(next);
    });

  it('an owner may be called like an id', async () => {
    const { code, out } = await runWords(
      ['send', 'sess_a.bot', 'hi', '--dry-run', '--json', '-p', 'https://asp.example/v1'],
      { environment: { ASP_TOKEN: 'x' } },
    );
    expect({ code, body: (JSON.parse(out) as { body: unknown }).body }).toEqual({
      code: 0,
      body: { invite: ['@sess_a.bot'], initial_message: { content: 'hi' } },
    });
  });
});

describe('a noun alone', () => {
  const nouns = [
    ...PROGRAM.nouns.filter(({ noun }) => noun !== 'serve' && noun !== 'inbox').map(({ noun }) => noun),
    ...['serve agent', 'serve client', 'serve keys'],
  ];
  for (const noun of nouns)
    it(`asp ${noun} is its help`, async () => {
      const alone = await runWords(noun);
      expect(alone).toMatchObject({ code: 0, err: '' });
      expect(alone.out).toMatch(new RegExp(`^asp ${noun}( .*)?\\n\\n {2}${noun} \\w+`));
      expect(await runWords(`${noun} --help`)).toEqual(alone);
    });
});

describe('--version', () => {
  it('is a number, or the document that asp version prints', async () => {
    expect(await runWords('--version')).toMatchObject({ code: 0, out: '1.2.3\n', err: '' });
    const whole = await runWords('version --json');
    expect(await runWords('--version --json')).toEqual(whole);
    expect(await runWords('-V', { environment: { ASP_FORMAT: 'json' } })).toEqual(whole);
    expect(JSON.parse(whole.out)).toMatchObject({ version: '1.2.3' });
  });
});

describe('--fields', () => {
  it('refuses a field that is never printed, before anything happens', async () => {
    const environment = { ASP_PROFILE: 'http://127.0.0.1:9/v1', ASP_TOKEN: 'x' };
    const asked = await runWords('send a.b hi --fields sesion_id', { environment });
    expect(asked).toMatchObject({ code: 2, out: '' });
    expect(JSON.parse(asked.err)).toMatchObject({
      error: {
        message: "'sesion_id' is not a field in the output of asp message send.",
        hint: "did you mean 'session_id'?",
        next: ['asp', 'schema', 'message', 'send'],
      },
    });
    expect(await runWords('session list --fields nosuch', { environment })).toMatchObject({ code: 2, out: '' });
  });

  it('of a list are those of its items, and a known one is picked', async () => {
    const { code, out } = await runWords('commands --fields words,options.name');
    expect(code).toBe(0);
    const { items } = JSON.parse(out) as { items: { words: string[] }[] };
    expect(Object.keys(items[0] ?? {})).toEqual(['words', 'options']);
  });

  it('of what has no fixed fields are not judged', async () => {
    expect(await runWords('schema session --fields title')).toMatchObject({ code: 0 });
    const environment = { ASP_PROFILE: 'http://127.0.0.1:9/v1', ASP_TOKEN: 'x' };
    const dry = await runWords('send a.b hi --dry-run --fields method', { environment });
    expect(JSON.parse(dry.out)).toEqual({ method: 'POST' });
  });
});

describe('--fence', () => {
  it.each([
    'send a.b hi --wait',
    'ask a.b why?',
    `reply ${SESSION} hi --wait`,
    `session wait ${SESSION} --for reply`,
    `message list ${SESSION}`,
    'inbox',
    `inbox read ${SESSION}`,
    `tail ${SESSION}`,
  ])('contradicts an option for JSON in asp %s', async (words) => {
    for (const option of ['--json', '--jsonl', '--fields session_id', '--jq .'])
      expect(await runWords(`${words} --fence ${option}`)).toMatchObject({
        code: 2,
        out: '',
        err: expect.stringMatching(/--fence and --(json|jsonl|fields|jq) cannot be used together/),
      });
  });
});

describe('--jq', () => {
  it('prints one line for each result, strings as text without control characters, numbers unchanged', async () => {
    const expression = String.raw`--jq .version,{a:1},12345678901234567890,"a\u001b[31mb",$ENV.ME`;
    expect(await runWords(`version ${expression}`, { environment: { ME: 'me' } })).toEqual({
      code: 0,
      out: '1.2.3\n{"a":1}\n12345678901234567890\na[31mb\nme\n',
      err: '',
    });
  });

  it('refuses a wrong expression with the usage exit code, before anything happens', async () => {
    const environment = { ASP_PROFILE: 'http://127.0.0.1:9/v1', ASP_TOKEN: 'x' };
    for (const wrong of ['.a[', '.a|foo', '.a)|(.b', '#']) {
      const { code, out, err } = await runWords(`send a.b hi --jq ${wrong}`, { environment });
      expect({ code, out, failure: JSON.parse(err).error.code }).toEqual({ code: 2, out: '', failure: 'ASP_USAGE' });
    }
  });

  it('prints the whole document when the expression fails on it: nothing is lost', async () => {
    const { code, out, err } = await runWords('version --jq .node,.version.x');
    const [result, document = '', end] = out.split('\n');
    expect({ code, end }).toEqual({ code: 10, end: '' });
    expect(JSON.parse(document)).toMatchObject({ version: '1.2.3', node: result });
    expect(lastErrorIn(err)).toMatchObject({ code: 'ASP_PARTIAL', outcome: 'applied' });
  });

  it('prints a whole list in full when the expression fails on it', async () => {
    const { code, out, err } = await runWords('commands alias --jq .items.x');
    expect({ code, names: JSON.parse(out).items.length }).toEqual({ code: 10, names: 3 });
    expect(lastErrorIn(err)).toMatchObject({ code: 'ASP_PARTIAL', outcome: 'applied' });
  });

  it('says once why the expression failed on a document, in a note or, with --quiet, in the failure', async () => {
    const { err } = await runWords(['version', '--jq', 'error("no")']);
    const [note = '', failure = '', ...more] = err.trimEnd().split('\n');
    expect(JSON.parse(note)).toEqual({ note: 'The whole document is printed, because --jq failed: no.' });
    expect([lastErrorIn(failure).hint, more]).toEqual([undefined, []]);
    const quiet = await runWords(['version', '-q', '--jq', 'error("no")']);
    expect((JSON.parse(quiet.err) as { error: Failure }).error.hint).toBe('jq says: no.');
  });

  it('leaves out only the items of --jsonl on which the expression fails', async () => {
    const expression = '.words[1]|if .=="remove" then error("no") else . end';
    const { code, out, err } = await runWords(['commands', 'alias', '--jsonl', '--jq', expression]);
    expect({ code, out }).toEqual({ code: 10, out: 'list\nset\n' });
    expect(err).toContain('--jq failed on one line.');
  });

  it('lets the deadline end an expression that never ends', async () => {
    const { code, out } = await runWords('version --jq last(repeat(1)) --timeout 300ms');
    expect({ code, out }).toEqual({ code: 8, out: '' });
  });

  it('survives an expression that needs too much memory', async () => {
    const { code, out } = await runWords('version --jq [range(3e8)]|length');
    expect({ code, version: JSON.parse(out).version }).toEqual({ code: 10, version: '1.2.3' });
  });
});

describe('a coding agent that runs asp', () => {
  const AGENT = { CLAUDECODE: '1' };
  /** No service answers there, so every command fails after its hint. */
  const NOWHERE = { ASP_PROFILE: 'http://127.0.0.1:9/v1', ASP_TOKEN: 'x', ASP_WS_TOKEN: 'x' };
  const hintsOf = async (words: string, environment: Readonly<Record<string, string>>): Promise<string[]> => {
    const { out, err } = await runWords(`${words} --retries 0 --no-input`, {
      environment: { ...NOWHERE, ...environment },
    });
    expect(out).toBe('');
    return err.split('\n').filter((line) => line.includes('coding agent'));
  };
  const FENCE = 'For a coding agent: with --fence, text of other agents is marked, with who wrote it.';
  const HELP = 'For a coding agent: asp help agents has what you need.';

  it.each([
    ['inbox', FENCE],
    [`inbox read ${SESSION}`, FENCE],
    [`message list ${SESSION}`, FENCE],
    [`send ${SESSION} hi --wait`, FENCE],
    ['ask @a.b why?', FENCE],
    [`reply ${SESSION} hi --wait`, FENCE],
    [
      'tail --timeout 1s',
      'For a coding agent: asp tail --for-agent prints one short line for each message, with who wrote it.',
    ],
    ['inbox --nosuch', HELP],
    ['nosuch', HELP],
  ])('gets exactly one hint on stderr from asp %s', async (words, hint) => {
    expect(await hintsOf(words, AGENT)).toEqual([hint]);
    expect(await hintsOf(words, {})).toEqual([]);
    for (const more of ['--json', '--quiet']) expect(await hintsOf(`${words} ${more}`, AGENT)).toEqual([]);
  });

  it.each(['inbox --fence', `reply ${SESSION} hi`, `send ${SESSION} hi`, 'tail --for-agent --timeout 1s', 'whoami'])(
    'gets no hint from asp %s',
    async (words) => expect(await hintsOf(words, AGENT)).toEqual([]),
  );

  it.each(AGENT_VARIABLES)('is recognized by %s, but not in a command of asp run', async (name) => {
    expect(await hintsOf('inbox', { [name]: 'x' })).toEqual([FENCE]);
    expect(await hintsOf('inbox', { [name]: '' })).toEqual([]);
    expect(await hintsOf('inbox', { [name]: 'x', ASP_SESSION_ID: SESSION })).toEqual([]);
  });
});
