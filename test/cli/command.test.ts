import { describe, expect, it } from 'vitest';

import { type Args, command, createArgs, type Option } from '../../src/cli/command.js';
import type { ToolArgs } from '../../src/cli/commands/mcp/tools.js';
import type { sessionList } from '../../src/cli/commands/session/session.js';
import { pageOptions, readPageOptions } from '../../src/cli/options.js';

const FACTS = {
  summary: 'for this test',
  examples: [
    { line: 'asp example', about: 'one' },
    { line: 'asp example', about: 'two' },
  ],
  stdout: 'nothing',
  run: async () => {},
} as const;

const OPTIONS = [
  { flags: '-n, --limit <count>', about: 'a value' },
  { flags: '--all', about: 'a flag' },
  { flags: '--no-join', about: 'a negation' },
  { flags: '--state <state>', about: 'a choice', choices: ['active', 'ended'] },
  { flags: '--from <handles>', about: 'a list', isRepeatable: true },
] as const satisfies readonly Option[];

/** Returns the typed arguments that a command parses from these options. */
const parsed = (options: Record<string, boolean | string | readonly string[]>, positional: readonly string[] = []) => ({
  options: new Map(Object.entries(options)),
  positional,
});

describe('the arguments of a command', () => {
  it('return each option by its long name, and each argument by its name', () => {
    const usages = [
      { usage: '<file|->', about: '' },
      { usage: '[handles...]', about: '' },
    ] as const;
    const args = createArgs<(typeof OPTIONS)[number], (typeof usages)[number]>(
      parsed({ limit: '5', 'no-join': true, state: 'active', from: ['@a.b', '@c.d'] }, ['-', '@e.f', '@g.h']),
      usages,
    );
    const file: string = args.argument('file');
    const handles: readonly string[] = args.argument('handles');
    const state: 'active' | 'ended' | undefined = args.text('state');
    expect({ file, handles, state }).toEqual({ file: '-', handles: ['@e.f', '@g.h'], state: 'active' });
    expect([args.count('limit'), args.flag('no-join'), args.flag('all')]).toEqual([5, true, false]);
    expect([args.texts('from'), args.isSet('all'), args.value('from')]).toEqual([
      ['@a.b', '@c.d'],
      false,
      ['@a.b', '@c.d'],
    ]);
    expect(() => args.refuseBoth('limit', 'state')).toThrow('--limit and --state cannot be used together.');
  });

  it('are undefined for a missing optional argument, and empty for a missing list', () => {
    const usages = [
      { usage: '[name]', about: '' },
      { usage: '[more...]', about: '' },
    ] as const;
    const args = createArgs<never, (typeof usages)[number]>(parsed({}), usages);
    const name: string | undefined = args.argument('name');
    expect([name, args.argument('more')]).toEqual([undefined, []]);
  });
});

// `npm run typecheck` covers this file. It fails if the line below an expected error compiles.
describe('a misspelled option', () => {
  it('does not compile in the parser of a command', () => {
    command({
      ...FACTS,
      path: 'example list',
      arguments: [{ usage: '<session>', about: '' }],
      options: OPTIONS,
      effect: 'write',
      // @ts-expect-error: endlessWith names a flag of the command
      endlessWith: ['al'],
      parse(args) {
        args.flag('all');
        // @ts-expect-error: misspelled
        args.flag('al');
        // @ts-expect-error: misspelled negation
        args.flag('no-jion');
        // @ts-expect-error: takes a value
        args.flag('limit');
        // @ts-expect-error: takes no value
        args.text('all');
        // @ts-expect-error: may be repeated
        args.text('from');
        // @ts-expect-error: may not be repeated
        args.texts('limit');
        // @ts-expect-error: a flag is not a count
        args.count('all');
        // @ts-expect-error: misspelled
        args.duration('limt');
        // @ts-expect-error: not one of its choices
        const state: 'archived' | undefined = args.text('state');
        // @ts-expect-error: misspelled
        args.refuseBoth('all', 'limt');
        // @ts-expect-error: misspelled
        args.isSet('sate');
        // @ts-expect-error: not an argument of the command
        args.argument('sesion');
        // @ts-expect-error: a required argument is never undefined
        const missing: undefined = args.argument('session');
        return { state, missing };
      },
      async run(_, options) {
        // @ts-expect-error: the parser returns no such member
        options.sate;
      },
    });
  });

  it('does not compile for options of every command, of writes and of pages', () => {
    command({
      ...FACTS,
      path: 'example write',
      effect: 'write',
      parse(args) {
        args.flag('json');
        args.flag('dry-run');
        // @ts-expect-error: misspelled global option
        args.flag('jsn');
        // @ts-expect-error: misspelled write option
        args.text('idempotency-kee');
      },
    });
    command({
      ...FACTS,
      path: 'example read',
      options: pageOptions(50),
      effect: 'read',
      parse(args) {
        // @ts-expect-error: a read-only command has no key
        args.text('once');
        // @ts-expect-error: misspelled page option
        args.text('cursr');
        return readPageOptions(args, 50);
      },
    });
    command({
      ...FACTS,
      path: 'example agent',
      effect: 'write',
      makesOwnKeys: true,
      // @ts-expect-error: a command that generates its keys has no such option
      parse: (args) => args.text('once'),
    });
    const unpaged = createArgs<{ flags: '--limit <count>'; about: '' }>(parsed({}));
    // @ts-expect-error: --all and --cursor are missing
    readPageOptions(unpaged, 50);
  });

  it('does not compile in the options that a tool passes to its command', () => {
    const right: ToolArgs<typeof sessionList> = { options: { state: 'active', limit: 5, all: true } };
    // @ts-expect-error: misspelled
    const misspelled: ToolArgs<typeof sessionList> = { options: { cursr: 'x' } };
    // @ts-expect-error: not one of its choices
    const wrong: ToolArgs<typeof sessionList> = { options: { state: 'archived' } };
    expect([right, misspelled, wrong]).toHaveLength(3);
  });

  it('does not compile where several commands share their options', () => {
    const read = (args: Args<(typeof OPTIONS)[number]>) => args.text('state');
    // @ts-expect-error: a command without --state
    read(createArgs<(typeof OPTIONS)[1]>(parsed({})));
    expect(read(createArgs<(typeof OPTIONS)[number]>(parsed({ state: 'ended' })))).toBe('ended');
  });
});
