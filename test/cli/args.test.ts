import { describe, expect, it } from 'vitest';

import { findCommand } from '../../src/cli/argv.js';
import { listSpellings, loadCommands, optionName } from '../../src/cli/command.js';
import { TOPICS } from '../../src/cli/commands/help/topics.js';
import { everyOption } from '../../src/cli/options.js';
import { PROGRAM } from '../../src/cli/program.js';
import { readTime } from '../../src/cli/values.js';
import { durationMs } from '../../src/kit/duration.js';
import { optionsOf, runWords } from './captured-run.js';

const { commands: COMMANDS } = await loadCommands(PROGRAM);

const SESSION = `sess_${'0'.repeat(26)}`;
const ATTACHMENT = `att_${'0'.repeat(26)}`;

describe('the command tree', () => {
  it('has no two commands with the same spelling', () => {
    const spellings = COMMANDS.flatMap((command) => listSpellings(command, PROGRAM));
    expect(spellings.filter((spelling, index) => spellings.indexOf(spelling) !== index)).toEqual([]);
  });

  it('gives every command two examples that begin with asp or pipe into it', () => {
    for (const { path, examples } of COMMANDS) {
      expect(examples.length, path).toBeGreaterThanOrEqual(2);
      for (const { line } of examples) expect(line, path).toMatch(/\basp /);
    }
  });

  it('has no option that takes an optional value', () => {
    for (const command of COMMANDS) for (const { flags } of everyOption(command)) expect(flags).not.toMatch(/\[/);
  });

  it('gives an option the same arity and short form everywhere', () => {
    const known = new Map<string, string>();
    for (const command of COMMANDS)
      for (const { flags } of everyOption(command)) {
        const { short, long } = optionName(flags);
        if (short === undefined || command.path === 'api') continue;
        expect(known.get(short) ?? long, `${command.path} ${short}`).toBe(long);
        known.set(short, long);
      }
  });

  it('has no option that would take a secret', () => {
    for (const command of COMMANDS)
      for (const { flags } of everyOption(command))
        expect(flags).not.toMatch(/--(token|secret|client-secret|password|passphrase|refresh-token)\b/);
  });

  it('has each option once per command', () => {
    for (const command of COMMANDS) {
      const names = everyOption(command).map(({ flags }) => optionName(flags).long);
      expect(
        names.filter((name, index) => names.indexOf(name) !== index),
        command.path,
      ).toEqual([]);
    }
  });
});

describe('a line that runs a command:', () => {
  const table: [line: string, words: string, rest: string][] = [
    ['send a.b hi', 'message send', 'a.b hi'],
    ['message send a.b hi', 'message send', 'a.b hi'],
    ['messages send a.b hi', 'message send', 'a.b hi'],
    ['-p local send a.b hi', 'message send', '-p local a.b hi'],
    ['--profile=local send a.b hi', 'message send', '--profile=local a.b hi'],
    ['-qp local session list', 'session list', '-qp local'],
    ['session --json list', 'session list', '--json'],
    ['sessions list --state active', 'session list', '--state active'],
    ['tail', 'session tail', ''],
    ['session tail x', 'session tail', 'x'],
    ['send tail show', 'message send', 'tail show'],
    ['send --topic session list', 'message send', '--topic session list'],
    ['send -- --help', 'message send', '-- --help'],
  ];
  for (const [line, words, rest] of table)
    it(`asp ${line}`, async () => {
      const found = await findCommand(PROGRAM, line.split(' '));
      expect(found.command?.path).toBe(words);
      expect(found.rest.join(' ')).toBe(rest);
      expect(found.wantsHelp).toBe(false);
    });

  for (const line of ['send --help', '-h send', 'send a.b -h', 'send -qh', '--help send a.b'])
    it(`asp ${line} shows help`, async () => {
      expect(await findCommand(PROGRAM, line.split(' '))).toMatchObject({ wantsHelp: true });
    });

  for (const line of ['send a.b -m -h', 'send --topic --help a.b'])
    it(`asp ${line} treats the word after an option as its value`, async () => {
      expect(await findCommand(PROGRAM, line.split(' '))).toMatchObject({ wantsHelp: false });
    });
});

describe('words become options: send', () => {
  const table: [line: string, options: object][] = [
    [
      'send @alice.bot hi',
      { target: { kind: 'handles', handles: ['@alice.bot'] }, text: { kind: 'given', text: 'hi' } },
    ],
    ['send alice.bot,bob.bot hi', { target: { kind: 'handles', handles: ['@alice.bot', '@bob.bot'] } }],
    ['send alice.bot,@alice.bot hi', { target: { kind: 'handles', handles: ['@alice.bot'] } }],
    [`send ${SESSION} hi --end`, { target: { kind: 'session', sessionId: SESSION }, ends: true }],
    ['send a.b -m "one two"', { text: { kind: 'given', text: 'one two' } }],
    ['send a.b -m -', { text: { kind: 'stdin' } }],
    ['send a.b -', { text: { kind: 'stdin' } }],
    ['send a.b -- --end', { text: { kind: 'given', text: '--end' }, ends: false }],
    ['send a.b -F note.txt', { text: { kind: 'file', path: 'note.txt' } }],
    ['send a.b -F -', { text: { kind: 'stdin' } }],
    ['send a.b', { text: undefined }],
    ['send a.b hi --wait', { waits: true, endsAfterReply: false }],
    ['send a.b hi --end-after-reply', { waits: true, endsAfterReply: true }],
    ['send a.b --meta a=1 --meta b=x=y hi', { metadata: { a: '1', b: 'x=y' } }],
    ['send a.b --file a.png --file b.pdf', { files: ['a.png', 'b.pdf'] }],
    [`send a.b hi --attach ${ATTACHMENT}`, { attachmentIds: [ATTACHMENT] }],
    ['send a.b --data {"a":1} --data @x.json', { data: ['{"a":1}', '@x.json'] }],
    ['send a.b hi --topic "a topic" --strict', { topic: 'a topic', isStrict: true }],
  ];
  for (const [line, options] of table)
    it(`asp ${line}`, async () => expect(await optionsOf(line)).toMatchObject(options));

  const refused: [line: string, said: RegExp][] = [
    ['send', /missing required argument/i],
    ['send Alice.Bot hi', /not a handle.*\n.*@alice\.bot/],
    ['send alice hi', /not a handle/],
    [`send ${ATTACHMENT} hi`, /is an attachment id/],
    ['send sess_x hi', /not a session id/],
    ['send a.b hi there', /at most 2 arguments/],
    ['send a.b hi -m ho', /more than one/],
    ['send a.b --wait --end hi', /cannot be used together/],
    ['send a.b --lines --wait', /cannot be used together/],
    ['send a.b -F - --file - --filename x.txt', /read only once/],
    ['send a.b --meta novalue hi', /key=value/],
    [`send ${SESSION} hi --topic x`, /is only for a new session/],
    ['send a.b --file 1 --file 2 --file 3 --file 4 --file 5 --file 6', /at most 5/],
    ['send a.b hi --idempotency-key x --once y', /cannot be used together/],
    ['send a.b hi --timeout soon', /not a duration/],
    ['send a.b hi --retries many', /not a whole number/],
    ['send a.b hi --as Nobody', /not a handle/],
    ['send a.b hi --json --jsonl', /cannot be used together/],
    ['send a.b hi --color sometimes', /is not one of/],
  ];
  for (const [line, said] of refused)
    it(`asp ${line} is refused with exit 2`, async () => {
      const { code, out, err } = await runWords(line);
      expect(err).toMatch(said);
      expect({ code, out }).toEqual({ code: 2, out: '' });
    });
});

describe('the limits of an agent that answers', () => {
  it.each([
    ['mcp', 200],
    ['mcp --max-replies-per-hour 0', 0],
    ["run --exec 'cat'", 0],
    ["run --exec 'cat' --max-replies-per-hour 5", 5],
    ["run --acp 'gemini --acp'", 200],
    ["run --acp 'gemini --acp' --max-replies-per-hour 0", 0],
  ])('asp %s allows %i messages in an hour (0: any number)', async (line, repliesPerHour) => {
    expect(await optionsOf(line)).toMatchObject({ limits: { repliesPerHour } });
  });
});

describe('words become options: tail', () => {
  const table: [line: string, options: object][] = [
    ['tail', { sessionIds: [], isFollowing: true, view: 'lines', last: undefined }],
    [`tail ${SESSION} -n 5`, { sessionIds: [SESSION], last: 5 }],
    [`tail -f ${SESSION}`, { sessionIds: [SESSION], isFollowing: true }],
    [`tail ${SESSION} --no-follow --after 3`, { isFollowing: false, after: 3 }],
    [`session events ${SESSION}`, { isFollowing: false }],
    [
      'tail --type message --type session.ended,joined',
      { types: ['session.message', 'session.ended', 'session.joined'] },
    ],
    ['tail --from a.b,@c.d --not-me', { from: ['@a.b', '@c.d'], isNotMe: true }],
    ['tail -c 3 --idle 10s', { count: 3, idleMs: 10_000 }],
    ['tail --pretty', { view: 'pretty' }],
    ['tail --heartbeat 1m', { heartbeatMs: 60_000, hasControl: true }],
    ['tail --forward https://example.com/hook', { forwardUrl: 'https://example.com/hook' }],
    [`tail ${SESSION} --until 2020-01-01`, { isFollowing: false, untilMs: Date.UTC(2020, 0, 1) }],
  ];
  for (const [line, options] of table)
    it(`asp ${line}`, async () => expect(await optionsOf(line)).toMatchObject(options));

  const refused: [line: string, said: RegExp][] = [
    ['tail -n 5', /needs a session/],
    ['tail --no-follow', /needs a session/],
    ['tail --type mesage', /did you mean session\.message/],
    ['tail --pretty --text', /cannot be used together/],
    ['tail --pretty --json', /cannot be used together/],
    ['tail --forward http://example.com', /https/],
    ['tail --forward-secret-file secret', /needs --forward/],
    [`tail ${SESSION} -n 5 --after 3`, /cannot be used together/],
    ['tail -c 0', /whole number of at least 1/],
    [`tail ${SESSION} --since yesterday`, /not a time/],
    [`session export ${SESSION} --format md --json`, /cannot be used together/],
  ];
  for (const [line, said] of refused)
    it(`asp ${line} is refused with exit 2`, async () => {
      const { code, err } = await runWords(line);
      expect(err).toMatch(said);
      expect(code).toBe(2);
    });
});

describe('values', () => {
  it.each([
    ['500ms', 500],
    ['30s', 30_000],
    ['10m', 600_000],
    ['2h', 7_200_000],
    ['7d', 604_800_000],
    ['1.5s', 1500],
    ['10', undefined],
    ['', undefined],
    ['-1s', undefined],
    ['1w', undefined],
    ['99999d', undefined],
  ])('the duration %s is %s ms', (text, expected) => expect(durationMs(text)).toBe(expected));

  it.each([
    ['2026-01-02T03:04:05Z', Date.UTC(2026, 0, 2, 3, 4, 5)],
    ['2026-01-02T03:04:05.678+01:00', Date.UTC(2026, 0, 2, 2, 4, 5, 678)],
    ['1795251600000', 1_795_251_600_000],
    ['2h', 1_000_000_000_000 - 7_200_000],
  ])('the time %s is understood', (text, expected) => expect(readTime('--since', text, 1e12)).toBe(expected));
});

describe('a mistyped word', () => {
  it.each([
    ['sned a.b hi', "'send'"],
    ['tial', "'tail'"],
    ['session lst', "'session list'"],
    ['sesion list', "'session'"],
    ['versoin', "'version'"],
  ])('asp %s gets a suggestion, exit 2', async (line, near) => {
    const { code, err, out } = await runWords(line);
    expect(err).toContain(near);
    expect({ code, out }).toEqual({ code: 2, out: '' });
  });

  it('suggests nothing that is further away than another suggestion', async () => {
    const { err } = await runWords('sesion list');
    expect(err).toContain("did you mean 'session'?");
  });

  it('names the nearest option', async () => {
    const { code, err } = await runWords('send a.b hi --tpoic x');
    expect(err).toContain('did you mean --topic?');
    expect(code).toBe(2);
  });

  it('is reported as one JSON line with --json', async () => {
    const { err } = await runWords('sned --json');
    expect(err.trimEnd().split('\n')).toHaveLength(1);
    expect(JSON.parse(err)).toMatchObject({
      error: { code: 'ASP_USAGE', exit_code: 2, outcome: 'not_applied', next: ['asp', 'send', '--help'] },
    });
  });
});

describe('help', () => {
  it('of every command shows its examples before its options and exits 0', async () => {
    for (const { path, examples } of COMMANDS) {
      const { code, out, err } = await runWords([...path.split(' '), '--help']);
      expect({ code, err }, path).toEqual({ code: 0, err: '' });
      expect(out, path).toContain(examples[0].line);
      const options = out.indexOf('\nOptions\n');
      if (options !== -1) expect(out.indexOf('\nExamples\n'), path).toBeLessThan(options);
    }
  });

  it('names no option that the command would refuse', async () => {
    const { out } = await runWords('run --help');
    expect(out).toContain('--exec');
    expect(out).not.toContain('--once');
  });

  it('of asp, of a noun and of a topic is on stdout with exit 0', async () => {
    for (const line of ['', '--help', 'session', 'sessions', 'help', 'help session', 'help exit-codes', 'help send']) {
      const { code, out, err } = await runWords(line);
      expect({ code, err }, line).toEqual({ code: 0, err: '' });
      expect(out.length, line).toBeGreaterThan(200);
    }
  });

  const pages = [
    ...['--help', ...PROGRAM.nouns.map(({ noun }) => `${noun} --help`)],
    ...COMMANDS.map(({ path }) => `${path} --help`),
    ...Object.keys(TOPICS).map((topic) => `help ${topic}`),
  ];

  it.each([
    ['a pipe', {}, 80],
    ['a terminal of 40 columns', { isTerminal: true, columns: 40 }, 40],
    ['a terminal of 70 columns', { isTerminal: true, columns: 70 }, 70],
    ['a terminal of 100 columns', { isTerminal: true, columns: 100 }, 100],
  ])('fits %s, and breaks no word', async (_, options, width) => {
    for (const page of pages) {
      const { out } = await runWords(page, { ...options, environment: { NO_COLOR: '1' } });
      const isCommand = (line: string): boolean => /^ {2}\S.*=|\basp [\w-]/.test(line);
      const lines = out.split('\n').filter((line) => width >= 80 || !isCommand(line));
      for (const line of lines) {
        const word = line.trim().split(' ').length === 1;
        expect(line.length <= width || word, `${page}: ${line}`).toBe(true);
      }
    }
    // Collapses whitespace, so that the comparison ignores line breaks.
    const words = (text: string): string => text.replace(/\s+(# )?/g, ' ');
    const wide = await runWords('help tail', { columns: 1000 });
    expect(words((await runWords('help tail', { columns: width })).out)).toBe(words(wide.out));
  });

  it('continues a comment of an example as a comment, so that the example can be pasted', async () => {
    const { out } = await runWords('send --help', { isTerminal: true, columns: 40, environment: { NO_COLOR: '1' } });
    expect(out).toContain('  # ask, print the answer, end the\n  # session\n');
  });

  it('of a word that is a command and a topic shows both', async () => {
    const { out } = await runWords('help tail');
    expect(out).toContain('--cursor-file <path>');
    expect(out).toContain('Following sessions');
  });

  it('of an unknown topic is refused with exit 2', async () => {
    const { code, err } = await runWords('help exitcodes');
    expect(code).toBe(2);
    expect(err).toContain('exit-codes');
  });
});
