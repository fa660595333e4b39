import { type Argument, command } from '../command.js';
import { printRequest, read, write } from '../context/calls.js';
import type { Context } from '../context/context.js';
import { type ErrorContext, notFound } from '../context/explain.js';
import { UsageError } from '../errors.js';
import { decodeText, readSource } from '../input.js';
import { handleOf, ownerGlobOf, readHandle, readList, toHandlePath } from '../values.js';

const ENTRIES = {
  usage: '<entries...>',
  about: 'handles, or @owner.* for every agent of an owner',
} as const satisfies Argument;

export const allowlistList = command({
  path: 'allowlist list',
  summary: 'who may reach the acting agent while its policy is allowlist',
  examples: [
    { line: 'asp allowlist list', about: 'one entry a line' },
    { line: 'asp -a ops.bot allowlist list > ops.allow', about: 'into a file that apply takes' },
  ],
  effect: 'read',
  stdout: 'the entries, a line each',
  async run(context) {
    const items = (await readOwnEntries(context)).map((entry) => ({ entry }));
    await context.output.list({ items, next_cursor: null }, [{ title: 'entry', value: ({ entry }) => entry }]);
    if (items.length === 0) await context.output.note('The list is empty: only an open agent can be reached then.');
  },
});

/** The acting agent as the path of its list, and what its errors are about. */
async function findOwnList(context: Context) {
  const handle = await context.actingHandle();
  return { path: toHandlePath(handle), errorContext: { subject: `the allowlist of ${handle}` } };
}

async function readOwnEntries(context: Context): Promise<readonly string[]> {
  const { path, errorContext } = await findOwnList(context);
  return (await read(context, 'listAllowlist', { path }, errorContext)).entries;
}

/** A handle, or every agent of an owner: `@owner.*`. */
function readEntry(text: string): string {
  const entry = ownerGlobOf(text) ?? handleOf(text);
  if (entry !== undefined) return entry;
  throw new UsageError(`'${text}' is not a valid allowlist entry.`, {
    why: 'it is a handle (@owner.name) or every agent of an owner (@owner.*), in lower case.',
  });
}

export const allowlistAdd = command({
  path: 'allowlist add',
  summary: 'let agents reach the acting agent',
  arguments: [ENTRIES],
  examples: [
    { line: 'asp allowlist add alice.bot bob.bot', about: 'two agents' },
    { line: "asp allowlist add '@alice.*'", about: 'every agent of an owner' },
  ],
  effect: 'write',
  stdout: 'the entries that were added, a line each',
  parse: (args) => ({ entries: readList(args.argument('entries'), readEntry) }),
  async run(context, { entries }) {
    const { path, errorContext } = await findOwnList(context);
    const body = { entries };
    if (context.globals.isDryRun) return printRequest(context, 'addToAllowlist', { path, body });
    const { reply, idempotencyKey } = await write(context, 'addToAllowlist', { path, body }, errorContext);
    const result = { entries: reply.entries, added: entries, idempotency_key: idempotencyKey ?? null };
    await context.output.document(result, (safe) => safe.added.join('\n'));
  },
});

export const allowlistRemove = command({
  path: 'allowlist remove',
  summary: 'take entries off the list',
  arguments: [ENTRIES],
  examples: [
    { line: 'asp allowlist remove bob.bot', about: 'it must stand there as it is typed' },
    { line: "asp allowlist remove '@alice.*' --json", about: 'for a script' },
  ],
  effect: 'write',
  stdout: 'the entries that were removed, a line each',
  parse: (args) => ({ entries: readList(args.argument('entries'), readEntry) }),
  async run(context, options) {
    const { path } = await findOwnList(context);
    const removed: string[] = [];
    let entries: readonly string[] = [];
    for (const entry of options.entries) {
      const input = { path: { ...path, entry } };
      if (context.globals.isDryRun) await printRequest(context, 'removeFromAllowlist', input);
      else {
        entries = (await write(context, 'removeFromAllowlist', input, notListed(entry, removed))).reply.entries;
        removed.push(entry);
      }
    }
    if (context.globals.isDryRun) return;
    await context.output.document({ entries, removed }, (safe) => safe.removed.join('\n'));
  },
});

function notListed(entry: string, removed: readonly string[]): ErrorContext {
  const before = removed.length === 0 ? '' : ` Removed before it: ${removed.join(', ')}.`;
  return {
    subject: entry,
    messages: { NOT_FOUND: `${entry} is not on the list.${before}` },
    reasons: { NOT_FOUND: 'entries must match exactly: @owner.* and @owner.name are different entries.' },
    next: { NOT_FOUND: ['asp', 'allowlist', 'list'] },
    ...partly(removed.length),
  };
}

/** A change that fails after others leaves those made. */
const partly = (made: number): ErrorContext => (made === 0 ? {} : { outcome: { not_applied: 'applied' } });

export const allowlistApply = command({
  path: 'allowlist apply',
  summary: 'bring the list to what a file says: one entry a line, # for remarks',
  details: 'Prints what was added (+) and removed (-). Without --prune nothing is removed.',
  arguments: [{ usage: '<file|->', about: 'the file, or - for standard input' }],
  options: [{ flags: '--prune', about: 'remove what the file does not name' }],
  examples: [
    { line: 'asp allowlist apply ops.allow --prune --dry-run', about: 'what would change' },
    { line: 'git show main:ops.allow | asp allowlist apply - --prune', about: 'from a repository' },
  ],
  effect: 'write',
  stdout: 'what changed: + entry, - entry',
  parse: (args) => ({ source: args.argument('file'), isPruning: args.flag('prune') }),
  async run(context, { source, isPruning }) {
    const wanted = await readWanted(context, source);
    const { isDryRun, isYes } = context.globals;
    if (wanted.length === 0 && isPruning && !isYes && !isDryRun)
      throw new UsageError(`${nameSource(source)} holds no entry, and --prune would empty the list.`, {
        why: 'say --yes if that is meant.',
      });
    const { path, errorContext } = await findOwnList(context);
    const { entries: before } = await read(context, 'listAllowlist', { path }, errorContext);
    const added = wanted.filter((entry) => !before.includes(entry));
    const removed = isPruning ? before.filter((entry) => !wanted.includes(entry)) : [];
    let entries: readonly string[] = before;
    if (!isDryRun) {
      for (let at = 0; at < added.length; at += ENTRIES_PER_CALL) {
        const body = { entries: added.slice(at, at + ENTRIES_PER_CALL) };
        const suffix = at === 0 ? '' : `/${at}`;
        const about = { ...errorContext, ...partly(at) };
        entries = (await write(context, 'addToAllowlist', { path, body }, about, suffix)).reply.entries;
      }
      for (const [index, entry] of removed.entries()) {
        const input = { path: { ...path, entry } };
        const about = { subject: entry, ...partly(added.length + index) };
        entries = (await write(context, 'removeFromAllowlist', input, about)).reply.entries;
      }
    }
    if (isDryRun) await context.output.note('Nothing was changed (--dry-run).');
    else if (added.length + removed.length === 0) await context.output.note('Nothing had to be changed.');
    await context.output.document({ added, removed, entries, applied: !isDryRun }, (safe, style) =>
      [
        ...safe.added.map((entry) => style.green(`+ ${entry}`)),
        ...safe.removed.map((entry) => style.red(`- ${entry}`)),
      ].join('\n'),
    );
  },
});

const FILE_MAX_BYTES = 1024 * 1024;
const ENTRIES_PER_CALL = 1000;

const nameSource = (source: string): string => (source === '-' ? 'Standard input' : source);

/** One entry a line; what follows a `#` is a comment. */
async function readWanted(context: Context, source: string): Promise<string[]> {
  const name = nameSource(source);
  const lines = decodeText(await readSource(context, source, FILE_MAX_BYTES), name).split(/\r?\n/);
  const entries = lines.flatMap((line, index) => {
    const text = line.replace(/#.*$/, '').trim();
    if (text === '') return [];
    try {
      return [readEntry(text)];
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      throw new UsageError(`${name}, line ${index + 1}: ${error.message}`, { why: error.why, cause: error });
    }
  });
  return [...new Set(entries)];
}

export const allowlistCheck = command({
  path: 'allowlist check',
  summary: 'whether the policy and the list of the acting agent admit a handle',
  details: 'Prints the entry that admits it, or open; exit 3 when nothing does. A block is another matter.',
  arguments: [{ usage: '<handle>', about: '@owner.name or owner.name' }],
  examples: [
    { line: 'asp allowlist check alice.bot', about: 'which entry lets it in' },
    { line: 'asp allowlist check alice.bot -q || asp allowlist add alice.bot', about: 'in a script' },
  ],
  effect: 'read',
  stdout: 'the entry that admits the handle; nothing, and exit 3, when none does',
  parse: (args) => ({ handle: readHandle(args.argument('handle')) }),
  async run(context, { handle }) {
    const { inbound_policy: policy, canonical_handle: own } = await read(context, 'getActingAgent', {});
    const admitting = [handle, `@${toHandlePath(handle).owner}.*`];
    const entries = policy === 'open' ? [] : await readOwnEntries(context);
    const by = policy === 'open' ? 'open' : (admitting.find((entry) => entries.includes(entry)) ?? null);
    await context.output.document({ handle, allowed: by !== null, by, as: own }, (safe) => safe.by ?? '');
    if (by !== null) return;
    const next = ['asp', 'allowlist', 'add', handle.slice(1)];
    throw await notFound(`${handle} may not reach ${own}.`, 'no entry of its allowlist admits it.', next);
  },
});
