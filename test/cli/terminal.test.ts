import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { describe, expect, it, vi } from 'vitest';
import { startCommandGuard } from '../../src/cli/commands/run/command-guard.js';
import { passOnErrors } from '../../src/cli/commands/session/event-command.js';
import { createPrinter } from '../../src/cli/commands/tail/consume.js';
import type { Context } from '../../src/cli/context/context.js';
import { childEnvironment } from '../../src/cli/terminal/child-environment.js';
import { failureText } from '../../src/cli/terminal/failure.js';
import { pick, tableText, tsvText } from '../../src/cli/terminal/output.js';
import { createAppender } from '../../src/cli/terminal/process-streams.js';
import { isoTime, relativeTime } from '../../src/cli/terminal/relative-time.js';
import { isColored, PLAIN } from '../../src/cli/terminal/style.js';
import { quoteArgs } from '../../src/kit/format.js';
import { stableKey, systemRandom } from '../../src/kit/random.js';
import { sanitize, sanitizeLine } from '../../src/kit/sanitize.js';
import { displayWidth } from '../../src/kit/wrap.js';
import type { EventEnvelope } from '../../src/wire/schemas/event.js';
import { captureStreams } from '../support/captured-streams.js';
import { DANGEROUS } from '../support/hostile-text.js';

describe('color: --color, NO_COLOR, FORCE_COLOR and CLICOLOR_FORCE, and the terminal decide, in this order', () => {
  const table: [
    choice: 'auto' | 'always' | 'never',
    environment: Record<string, string>,
    isTerminal: boolean,
    isOn: boolean,
  ][] = [
    ['auto', {}, true, true],
    ['auto', {}, false, false],
    ['always', { NO_COLOR: '1' }, false, true],
    ['never', { FORCE_COLOR: '1' }, true, false],
    ['auto', { NO_COLOR: '1', FORCE_COLOR: '1' }, true, false],
    ['auto', { NO_COLOR: '' }, true, true],
    ['auto', { FORCE_COLOR: '1' }, false, true],
    ['auto', { FORCE_COLOR: '0' }, true, false],
    ['auto', { CLICOLOR_FORCE: '1' }, false, true],
    ['auto', { CLICOLOR: '0' }, true, false],
    ['auto', { TERM: 'dumb' }, true, false],
  ];
  for (const [choice, environment, isTerminal, isOn] of table)
    it(`${choice} ${JSON.stringify(environment)} ${isTerminal ? 'at a terminal' : 'in a pipe'}: ${isOn}`, () =>
      expect(isColored(choice, environment, isTerminal)).toBe(isOn));
});

describe('tables', () => {
  const columns = [
    { title: 'id', value: ({ id }: { id: string; text: string }) => id },
    { title: 'text', value: ({ text }: { id: string; text: string }) => text, isFlexible: true },
  ];
  it('are aligned, even with wide characters', () => {
    const text = tableText(
      [
        { id: 'a', text: 'x' },
        { id: '日本', text: 'y' },
      ],
      columns,
      PLAIN,
      80,
    );
    expect(text).toBe('ID    TEXT\na     x\n日本  y\n');
  });

  it('are never wider than the terminal', () => {
    for (const width of [1, 20, 40, 80]) {
      const text = tableText([{ id: 'a', text: 'x'.repeat(200) }], columns, PLAIN, width);
      for (const line of text.split('\n')) expect(displayWidth(line)).toBeLessThanOrEqual(Math.max(width, 12));
    }
  });

  it('share the width that is left between two long texts', () => {
    const [id, text] = columns;
    const shared = [id, text, { ...text, title: 'other', value: () => 'y'.repeat(20) }] as typeof columns;
    const row = (width: number) => tableText([{ id: 'a', text: 'x'.repeat(40) }], shared, PLAIN, width).split('\n')[1];
    expect(row(60)).toBe(`a   ${'x'.repeat(33)}…  ${'y'.repeat(20)}`);
    expect(row(36)).toBe(`a   ${'x'.repeat(14)}…  ${'y'.repeat(14)}…`);
    expect(row(10)).toBe(`a   ${'x'.repeat(7)}…  ${'y'.repeat(7)}…`);
  });

  it('leave out what is optional before a long text gets fewer than 10 characters', () => {
    const withIds = [...columns, { title: 'session', value: () => 's'.repeat(31), isOptional: true }];
    const items = [{ id: 'a', text: 'x'.repeat(20) }];
    expect(tableText(items, withIds, PLAIN, 47)).toContain(`a   ${'x'.repeat(9)}…  ${'s'.repeat(31)}`);
    expect(tableText(items, withIds, PLAIN, 46)).toBe(tableText(items, columns, PLAIN, 46));
    const withTwo = [...withIds, { title: 'more', value: () => 'm'.repeat(9), isOptional: true }];
    expect(tableText(items, withTwo, PLAIN, 57)).toBe(tableText(items, withIds, PLAIN, 57));
    expect(tableText(items, withTwo, PLAIN, 46)).toBe(tableText(items, columns, PLAIN, 46));
  });

  it('put under each row, whole, what is to move below if it does not fit next to it', () => {
    const session = { title: 'session', value: () => 's'.repeat(31), isOptional: 'below' as const };
    const why = { title: 'why', value: ({ text }: { text: string }) => text, isOptional: 'below' as const };
    const items = [
      { id: 'a', text: 'one two three four five six' },
      { id: 'b', text: '' },
    ];
    const narrow = tableText(items, [...columns, session, why] as typeof columns, PLAIN, 35);
    expect(narrow.split('\n')).toEqual([
      'ID  TEXT',
      'a   one two three four five six',
      `  ${'s'.repeat(31)}`,
      '  one two three four five six',
      'b',
      `  ${'s'.repeat(31)}`,
      '',
    ]);
    expect(tableText(items, [columns[0], why] as typeof columns, PLAIN, 20)).toBe(
      'ID\na\n  one two three four\n  five six\nb\n',
    );
  });

  it('can continue a text on the next line instead of cutting it', () => {
    const wrapping = [columns[0], { ...columns[1], isFlexible: 'wrap' as const }, columns[0]].flatMap(
      (one) => one ?? [],
    );
    const items = [{ id: 'a', text: 'one two three four five six seven eight' }];
    expect(tableText(items, wrapping as typeof columns, PLAIN, 32)).toBe(
      `ID  TEXT${' '.repeat(22)}ID\na   one two three four five   a\n    six seven eight\n`,
    );
  });

  it('do not wrap a text into a column of fewer than 24 characters, even on a narrow terminal', () => {
    const wrapping = [{ ...columns[1], isFlexible: 'wrap' as const }] as typeof columns;
    // 24 characters, then more.
    const items = [{ id: 'a', text: 'one two three four fives six' }];
    for (const width of [24, 23, 20, 1])
      expect(tableText(items, wrapping, PLAIN, width)).toBe('TEXT\none two three four fives\nsix\n');
  });

  it('are tab-separated and complete in a pipe', () => {
    expect(tsvText([{ id: 'a\tb', text: `x\n${'y'.repeat(200)}` }], columns)).toBe(`a b\tx ${'y'.repeat(200)}\n`);
  });
});

describe('text', () => {
  it('keeps lines and tabs, and removes control characters', () => {
    expect(sanitize('a\tb\r\nc\u001b[31md\u202ee\u200bf')).toBe('a\tb\nc[31mdef');
    expect(sanitizeLine('a\tb\nc')).toBe('a b c');
    expect(sanitize('é 日本 👍️')).toBe('é 日本 👍️');
    expect(sanitize('a\u{e0041}\u{e0100}\u00ad\u3164b\u200dc')).toBe('abc');
  });

  it('is safe with ids from a hostile service, in a fence for a model and in a command’s variables', async () => {
    const printed: string[] = [];
    const verbatim = async (text: string) => void printed.push(text);
    const output = { style: async () => PLAIN, verbatim };
    const context = { random: systemRandom, output, streams: captureStreams() } as unknown as Context;
    const id = 'sess_\u001b]0;pwn\u0007\u0000';
    const payload = { id: 'msg_1', session_id: id, sender: '@a.b', sequence: 1, content: 'hi', created_at: 1 };
    const ids = { event_id: 'evt_1', session_id: id };
    const event = { type: 'session.message', ...ids, sequence: 1, created_at: 1, payload } as const;
    const printer = await createPrinter(context, 'fence', false);
    await printer.add(event);
    await printer.flush();
    expect(printed.join()).toMatch(/ from @a\.b \(.+\), not your user, in sess_\]0;pwn sequence 1: /);
    expect(printed.join()).not.toMatch(DANGEROUS);
    expect(childEnvironment({}, { ASP_SESSION_ID: id })).toEqual({ ASP_SESSION_ID: 'sess_\u001b]0;pwn\u0007' });
  });

  it('is a line of JSON for each line of a command’s errors, and an endless line comes in pieces', async () => {
    const lines: unknown[] = [];
    const stderr = { ...captureStreams().stderr, write: async (text: string) => void lines.push(JSON.parse(text)) };
    const from = new PassThrough();
    const passed = passOnErrors(from, { event_id: 'evt_1' }, stderr);
    from.write('one\r');
    from.write('\ntwo\rthree\n');
    from.write('x'.repeat(200 * 1024));
    await expect.poll(() => lines).toHaveLength(6);
    from.end('é\n');
    await passed;
    const texts = lines.map((line) => (line as { stderr: string }).stderr);
    expect(texts.slice(0, 3)).toEqual(['one', 'two', 'three']);
    expect(texts.slice(3).join('')).toBe(`${'x'.repeat(200 * 1024)}é`);
    expect(Math.max(...texts.map(({ length }) => length))).toBe(64 * 1024);
    expect(lines[0]).toEqual({ event_id: 'evt_1', stderr: 'one' });
  });

  describe('of events into a pipe', () => {
    const eventOf = (sequence: number): EventEnvelope => {
      const payload = { agent: '@a.b' };
      return { type: 'session.joined', event_id: 'evt_1', session_id: 's', sequence, created_at: 1, payload };
    };
    /** Starts a printer of sequence numbers whose writes finish when the test says so. */
    async function startPrinter(isFile = false) {
      const writes: { text: string; end: (error?: Error) => void }[] = [];
      const verbatim = (text: string): Promise<void> =>
        new Promise((resolve, reject) => {
          writes.push({ text, end: (error) => (error === undefined ? resolve() : reject(error)) });
        });
      const toRecord = ({ sequence }: { sequence: number }): string => `${sequence}\n`;
      const { stdout, ...others } = captureStreams();
      const streams = { ...others, stdout: { ...stdout, isFile } };
      const context = { output: { toRecord, records: verbatim }, streams } as unknown as Context;
      return { writes, printer: await createPrinter(context, 'lines', true) };
    }
    const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));

    it('lines of one event-loop turn are one write; lines behind a slow reader are the next one', async () => {
      const { writes, printer } = await startPrinter();
      for (const sequence of [1, 2, 3]) await printer.add(eventOf(sequence));
      await turn();
      for (const sequence of [4, 5]) await printer.add(eventOf(sequence));
      await turn();
      await printer.add(eventOf(6));
      await turn();
      expect(writes.map(({ text }) => text)).toEqual(['1\n2\n3\n']);
      writes[0]?.end();
      await turn();
      expect(writes.map(({ text }) => text)).toEqual(['1\n2\n3\n', '4\n5\n6\n']);
    });

    it('what waits for a slow reader is bounded', async () => {
      const { writes, printer } = await startPrinter();
      await printer.add(eventOf(1));
      await turn();
      let added = 0;
      const adding = (async () => {
        for (; added < 100_000; added += 1) await printer.add(eventOf(2));
      })();
      await turn();
      expect([writes.length, added]).toEqual([1, 32 * 1024 - 1]);
      for (let index = 0; added < 100_000; index += 1) {
        writes[index]?.end();
        await turn();
      }
      await adding;
    });

    it('an action comes after the lines before it, and never if one of them was not accepted', async () => {
      const { writes, printer } = await startPrinter();
      const done: number[] = [];
      for (const sequence of [1, 2]) {
        await printer.add(eventOf(sequence));
        printer.after(() => done.push(sequence));
        await turn();
      }
      expect(done).toEqual([]);
      writes[0]?.end();
      await turn();
      expect(done).toEqual([1]);
      writes[1]?.end(new Error('no reader'));
      await expect(printer.flush()).rejects.toThrow('no reader');
      expect(done).toEqual([1]);
      expect(() => printer.add(eventOf(3))).toThrow('no reader');
    });

    it('into a file, each line is a separate write', async () => {
      const { writes, printer } = await startPrinter(true);
      for (const sequence of [1, 2]) {
        const added = printer.add(eventOf(sequence));
        await turn();
        writes.at(-1)?.end();
        await added;
      }
      expect(writes.map(({ text }) => text)).toEqual(['1\n', '2\n']);
    });
  });

  it('keeps joiners between letters and emoji, and removes others', () => {
    const family = '\u{1f468}\u200d\u{1f469}\u200d\u{1f467}';
    const persian = '\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645';
    const hindi = '\u0915\u094d\u200d\u0937';
    for (const text of [
      family,
      persian,
      hindi,
      '\u{1f3f3}\ufe0f\u200d\u{1f308}',
      '\u{1f469}\u{1f3fd}\u200d\u{1f680}',
      '1\ufe0f\u20e3',
    ])
      expect(sanitize(`${text} ${text}`)).toBe(`${text} ${text}`);
    expect(sanitize('\u200d\u{1f468}\u200d x\u200cy \u0645\u200c\u200c\u0645 a\ufe0f')).toBe(
      '\u{1f468} xy \u0645\u0645 a',
    );
  });

  it('quotes words so that a shell reads them back', () => {
    expect(quoteArgs(['asp', 'send', '@a.b', "it's $x", ''])).toBe(`asp send @a.b 'it'\\''s $x' ''`);
  });

  it('prints a failure in at most four lines and leaves out unknown facts', () => {
    const failure = { code: 'X', message: 'It\nfailed.', exitCode: 9, isRetryable: false, outcome: 'unknown' as const };
    expect(failureText(failure, PLAIN)).toBe('error: It failed.\n  code: X · exit 9\n');
    const long = { ...failure, why: 'one two three four five', next: ['asp', 'send', 'alice.bot', 'hello there'] };
    expect(failureText(long, PLAIN, 20).split('\n').slice(1, -2)).toEqual([
      '  why:  one two',
      '        three four',
      '        five',
      "  try:  asp send alice.bot 'hello there'",
    ]);
    expect(
      failureText({ ...failure, why: 'y.', next: ['asp'] }, PLAIN)
        .trimEnd()
        .split('\n'),
    ).toHaveLength(4);
  });

  it('prints readable times, and survives invalid ones', () => {
    const now = Date.UTC(2026, 0, 31);
    expect([0, 30_000, 90_000, 7_200_000, 3 * 86_400_000].map((ms) => relativeTime(now - ms, now))).toEqual([
      'just now',
      '30s ago',
      '1m ago',
      '2h ago',
      '3d ago',
    ]);
    expect(relativeTime(now + 7_200_000, now)).toBe('in 2h');
    expect(relativeTime(0, now)).toBe('1970-01-01');
    for (const value of [Number.NaN, 1e300, Number.POSITIVE_INFINITY]) expect(isoTime(value)).toBe('-');
  });
});

describe('--fields', () => {
  it('keeps members and members of members, through lists', () => {
    const value = { id: 1, session: { id: 2, state: 'x' }, list: [{ a: 1, b: 2 }] };
    expect(pick(value, ['id', 'session.state', 'list.a', 'none'])).toEqual({
      id: 1,
      session: { state: 'x' },
      list: [{ a: 1 }],
    });
    expect(pick({ a: { b: 1, c: 2 } }, ['a.b', 'a'])).toEqual({ a: { b: 1, c: 2 } });
  });
});

describe('secrets', () => {
  it('are not in the environment of a program that is started', () => {
    const given = {
      PATH: '/bin',
      ASP_TOKEN: 'x',
      ASP_WS_TOKEN: 'x',
      ASP_CLIENT_SECRET: 'x',
      ASP_STORE_PASSPHRASE: 'x',
      ASP_OPERATOR_TOKEN: 'x',
    };
    expect(childEnvironment(given, { A: '1', B: undefined })).toEqual({ PATH: '/bin', A: '1' });
  });

  it.skipIf(process.platform !== 'linux')('are not in the environment of the shell that watches over commands', () => {
    const machine = { platform: process.platform, processStart: () => undefined } as unknown as Context['machine'];
    vi.stubEnv('ASP_TOKEN', 'CANARY-token');
    const guard = startCommandGuard({ environment: process.env, machine });
    vi.unstubAllEnvs();
    const environ = readFileSync(`/proc/${guard.identity?.pid}/environ`, 'utf8');
    guard.close();
    expect(environ).toContain('PATH=');
    expect(environ).not.toContain('CANARY');
  });

  it('are removed wherever a program is started, except for asp itself and extensions', () => {
    const folder = join(import.meta.dirname, '../../src/cli');
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
    const passing = files.filter((name) => {
      const source = readFileSync(join(folder, name), 'utf8');
      return /\bspawn\(/.test(source) && !/\benv(?::| =) childEnvironment\(/.test(source);
    });
    expect(passing.sort()).toEqual(['commands/demo/play.ts', 'commands/serve/background.ts', 'terminal/extension.ts']);
  });
});

describe('--once', () => {
  it('makes a key in the form of a version 4 UUID that no separator can confuse', () => {
    const keys = [
      stableKey('@a.b', 'POST /x', 'n'),
      stableKey('@a.b', 'POST /', 'xn'),
      stableKey('@a.bP', 'OST /x', 'n'),
    ];
    expect(new Set(keys).size).toBe(3);
    for (const key of keys)
      expect(key).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  });
});

describe.each(['at once', 'later'])('a file that is written %s', (when) => {
  it('has each line on its own line after the disk was full, and no empty one', async () => {
    let text = '';
    let space = 6;
    const append = createAppender((bytes, at) => {
      const taken = bytes.subarray(at, at + Math.min(space, 2));
      if (taken.length === 0) throw new Error('ENOSPC');
      text += Buffer.from(taken).toString();
      space -= taken.length;
      return when === 'at once' ? taken.length : Promise.resolve(taken.length);
    });
    await append('one\n');
    await expect(append('two\n')).rejects.toThrow('ENOSPC');
    await expect(append('three\n')).rejects.toThrow('ENOSPC');
    // The line feed that ends the torn line fits, and nothing else.
    space = 1;
    await expect(append('four\n')).rejects.toThrow('ENOSPC');
    space = 100;
    const writing = append('five\n');
    expect(text.endsWith('five\n')).toBe(when === 'at once');
    await writing;
    expect(text).toBe('one\ntw\nfive\n');
  });
});
