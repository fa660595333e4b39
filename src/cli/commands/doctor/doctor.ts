import { quoteArgs } from '../../../kit/format.js';
import { command, describeTable } from '../../command.js';
import { withScopeOptions } from '../../context/explain.js';
import { CliError, usageError } from '../../errors.js';

const COLOR = { ok: 'green', fixed: 'green', warning: 'yellow', problem: 'red' } as const;

export const doctor = command({
  path: 'doctor',
  summary: 'find problems with settings, files, service, clock and logins',
  details: 'Changes nothing without --fix, and shows no secrets. Exit 1 if there is a problem.',
  options: [
    { flags: '--fix', about: 'make files private that other users can read; remove leftovers of a killed service' },
    {
      flags: '--bundle <file>',
      about: 'also write everything that helps to find a problem to a new file, without secrets',
    },
  ],
  examples: [
    { line: 'asp doctor', about: 'the problems, and how to fix them' },
    { line: 'asp doctor --fix --json', about: 'for a script' },
    { line: 'asp doctor --bundle asp.json', about: 'for a bug report' },
  ],
  effect: 'local',
  stdout: describeTable('check, state, finding'),
  parse: (args) => ({ isFixing: args.flag('fix'), bundle: readBundle(args.text('bundle')) }),
  async run(context, { isFixing, bundle }) {
    const { findProblems, writeBundle } = await import('./checks.js');
    const items = (await findProblems(context, isFixing)).map(({ fix, ...item }) => ({
      ...item,
      fix: fix === undefined ? null : withScopeOptions(fix, context.globals),
    }));
    if (bundle !== undefined) {
      const path = await writeBundle(context, bundle, items);
      await context.output.note(`Wrote ${path}. It names agents, services and files. Read it before you share it.`);
    }
    await context.output.list({ items, next_cursor: null }, [
      { title: 'check', value: ({ check }) => check },
      { title: 'state', value: ({ state }) => state, paint: (text, { state }, style) => style[COLOR[state]](text) },
      { title: 'finding', value: ({ says }) => says, isFlexible: 'wrap', isOptional: 'below' },
      {
        title: 'try',
        value: ({ fix }) => (fix === null ? '' : quoteArgs(fix)),
        isFlexible: 'wrap',
        isOptional: 'below',
      },
    ]);
    const wrong = items.filter(({ state }) => state === 'problem');
    if (wrong.length > 0)
      throw new CliError('ASP_UNHEALTHY', {
        message: `${wrong.length === 1 ? 'One check' : `${wrong.length} checks`} found a problem: ${wrong.map(({ check }) => check).join(', ')}.`,
        next: wrong[0]?.fix ?? undefined,
      });
  },
});

function readBundle(file: string | undefined): string | undefined {
  if (file === '-') throw usageError('--bundle needs the name of a file.', { why: 'stdout has the checks.' });
  return file;
}
