import { splitHandle, toOwnerGlob } from '../../wire/handle.js';
import { type Argument, command, describeTable } from '../command.js';
import { afterChanges, changeEach, MAY_BE_PARTIAL, printRequest, printResults, read, write } from '../context/calls.js';
import { remember } from '../context/completion-memory.js';
import type { Context } from '../context/context.js';
import { type ErrorContext, ifNotFound, notFound } from '../context/explain.js';
import { isUsageError, usageError } from '../errors.js';
import { decodeText, readSource } from '../input.js';
import { timeColumn } from '../terminal/relative-time.js';
import { parseHandle, parseOwnerGlob, readHandle, readHandles, readList } from '../values.js';

const ENTRIES = {
  usage: '<entries...>',
  about: 'handles, or @owner.* for every agent of an owner',
} as const satisfies Argument;

const ENTRIES_PER_CALL = 1000;

export const allowlistList = command({
  path: 'allowlist list',
  summary: 'list the agents that can reach the acting agent while its policy is allowlist',
  examples: [
    { line: 'asp allowlist list', about: 'one entry per line' },
    { line: 'asp -a ops.bot allowlist list > ops.allow', about: 'into a file for allowlist apply' },
  ],
  effect: 'read',
  stdout: 'the entries, one per line',
  async run(context) {
    const items = (await readOwnEntries(context)).map((entry) => ({ entry }));
    await context.output.list({ items, next_cursor: null }, [{ title: 'entry', value: ({ entry }) => entry }]);
    if (items.length === 0)
      await context.output.note('The list is empty: other agents can reach this agent only if its policy is open.');
  },
});

/** The acting agent as the path of its list, and the object of its errors. */
async function findOwnList(context: Context) {
  const handle = await context.actingHandle();
  return { path: splitHandle(handle), errorContext: { subject: `the allowlist of ${handle}` } };
}

async function readOwnEntries(context: Context): Promise<readonly string[]> {
  const { path, errorContext } = await findOwnList(context);
  const { entries } = await read(context, 'listAllowlist', { path }, errorContext);
  await rememberEntries(context, entries);
  return entries;
}

/** The list after a change. Null if the service did not say and it cannot be read: the change was made anyway. */
async function listNow(context: Context, entries: readonly string[] | null): Promise<readonly string[] | null> {
  if (entries === null) return readOwnEntries(context).catch(() => null);
  await rememberEntries(context, entries);
  return entries;
}

/** Completions offer the list as last seen. */
function rememberEntries(context: Context, entries: readonly string[]): Promise<void> {
  const items = entries.map((name) => ({ name }));
  return remember(context, 'entries', items, true);
}

/** A handle, or every agent of an owner: `@owner.*`. */
function readEntry(text: string): string {
  const entry = parseOwnerGlob(text) ?? parseHandle(text);
  if (entry !== undefined) return entry;
  throw usageError(`'${text}' is not a valid allowlist entry.`, {
    why: 'an entry is a handle (@owner.name) or every agent of an owner (@owner.*), in lower case.',
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
  stdout: 'the new entries, one per line',
  parse(args) {
    const entries = readList(args.argument('entries'), readEntry);
    if (entries.length > ENTRIES_PER_CALL)
      throw usageError(`asp allowlist add takes at most ${ENTRIES_PER_CALL} entries, not ${entries.length}.`, {
        why: 'asp allowlist apply adds any number, from a file or from standard input with one entry per line.',
        next: ['asp', 'allowlist', 'apply', '-'],
      });
    return { entries };
  },
  async run(context, { entries }) {
    const { path, errorContext } = await findOwnList(context);
    const body = { entries };
    if (context.globals.isDryRun) return printRequest(context, 'addToAllowlist', { path, body });
    const { reply, idempotencyKey } = await write(context, 'addToAllowlist', { path, body }, errorContext);
    const now = await listNow(context, reply.entries);
    const result = { entries: now, added: entries, idempotency_key: idempotencyKey ?? null };
    await context.output.document(result, (safe) => safe.added.join('\n'));
  },
});

export const allowlistRemove = command({
  path: 'allowlist remove',
  summary: 'remove entries from the list',
  details: MAY_BE_PARTIAL,
  arguments: [ENTRIES],
  examples: [
    { line: 'asp allowlist remove bob.bot', about: 'the entry must match exactly' },
    { line: "asp allowlist remove '@alice.*' --json", about: 'for a script' },
  ],
  effect: 'write',
  stdout: 'the removed entries, one per line',
  parse: (args) => ({ entries: readList(args.argument('entries'), readEntry) }),
  async run(context, options) {
    const { path } = await findOwnList(context);
    const inputOf = (entry: string) => ({ path: { ...path, entry } });
    const preview = (entry: string): Promise<void> => printRequest(context, 'removeFromAllowlist', inputOf(entry));
    let entries: readonly string[] | null = [];
    const print = async (removed: readonly string[]): Promise<void> => {
      const result = { entries: await listNow(context, entries), removed };
      await context.output.document(result, (safe) => safe.removed.join('\n'));
    };
    await changeEach(context, { names: options.entries, did: 'Removed', print, preview }, async (entry) => {
      const { reply } = await write(context, 'removeFromAllowlist', inputOf(entry), notListed(entry));
      entries = reply.entries;
      return entry;
    });
  },
});

const notListed = (entry: string): ErrorContext => ({
  subject: entry,
  ...ifNotFound(
    `${entry} is not on the list.`,
    ['asp', 'allowlist', 'list'],
    'entries must match exactly: @owner.* and @owner.name are different entries.',
  ),
});

export const allowlistApply = command({
  path: 'allowlist apply',
  summary: 'make the list match a file: one entry per line, # for comments',
  details: 'Prints added (+) and removed (-) entries. Without --prune, nothing is removed.',
  arguments: [{ usage: '<file|->', about: 'the file, or - for standard input' }],
  options: [{ flags: '--prune', about: 'remove entries that are not in the file' }],
  examples: [
    { line: 'asp allowlist apply ops.allow --prune --dry-run', about: 'what would change' },
    { line: 'git show main:ops.allow | asp allowlist apply - --prune', about: 'from a repository' },
  ],
  effect: 'write',
  stdout: 'the changes: + entry, - entry',
  parse: (args) => ({ source: args.argument('file'), isPruning: args.flag('prune') }),
  async run(context, { source, isPruning }) {
    const wanted = await readWanted(context, source);
    const { isDryRun, isYes } = context.globals;
    if (wanted.length === 0 && isPruning && !isYes && !isDryRun)
      throw usageError(`${nameSource(source)} contains no entries, and --prune would empty the list.`, {
        why: 'add --yes if you mean that.',
      });
    const { path, errorContext } = await findOwnList(context);
    const { entries: before } = await read(context, 'listAllowlist', { path }, errorContext);
    const added = wanted.filter((entry) => !before.includes(entry));
    const removed = isPruning ? before.filter((entry) => !wanted.includes(entry)) : [];
    let entries: readonly string[] | null = before;
    const partlyMade = (made: number): ErrorContext =>
      made === 0 ? {} : afterChanges(`${made} of ${added.length + removed.length} entries had already been changed.`);
    if (!isDryRun) {
      for (let at = 0; at < added.length; at += ENTRIES_PER_CALL) {
        const body = { entries: added.slice(at, at + ENTRIES_PER_CALL) };
        const suffix = at === 0 ? '' : `/${at}`;
        const about = { ...errorContext, ...partlyMade(at) };
        entries = (await write(context, 'addToAllowlist', { path, body }, about, suffix)).reply.entries;
      }
      for (const [index, entry] of removed.entries()) {
        const input = { path: { ...path, entry } };
        const about = { subject: entry, ...partlyMade(added.length + index) };
        entries = (await write(context, 'removeFromAllowlist', input, about)).reply.entries;
      }
    }
    if (isDryRun) await context.output.note('Nothing was changed (--dry-run).');
    else if (added.length + removed.length === 0) await context.output.note('No changes needed.');
    const result = { added, removed, entries: await listNow(context, entries), applied: !isDryRun };
    await context.output.document(result, (safe, style) =>
      [
        ...safe.added.map((entry) => style.green(`+ ${entry}`)),
        ...safe.removed.map((entry) => style.red(`- ${entry}`)),
      ].join('\n'),
    );
  },
});

const FILE_MAX_BYTES = 1024 * 1024;

const nameSource = (source: string): string => (source === '-' ? 'Standard input' : source);

/** One entry per line; a `#` starts a comment. */
async function readWanted(context: Context, source: string): Promise<string[]> {
  const name = nameSource(source);
  const lines = decodeText(await readSource(context, source, FILE_MAX_BYTES), name).split(/\r?\n/);
  const entries = lines.flatMap((line, index) => {
    const [listed = ''] = line.split('#', 1);
    const text = listed.trim();
    if (text === '') return [];
    try {
      return [readEntry(text)];
    } catch (error) {
      if (!isUsageError(error)) throw error;
      throw usageError(`${name}, line ${index + 1}: ${error.message}`, { why: error.why, cause: error });
    }
  });
  return [...new Set(entries)];
}

export const allowlistCheck = command({
  path: 'allowlist check',
  summary: 'check whether the acting agent admits a handle',
  details: 'Prints the entry that admits it, or open; exit 3 if nothing does. Blocks are not checked.',
  arguments: [{ usage: '<handle>', about: '@owner.name or owner.name' }],
  examples: [
    { line: 'asp allowlist check alice.bot', about: 'the entry that admits it' },
    { line: 'asp allowlist check alice.bot -q || asp allowlist add alice.bot', about: 'in a script' },
  ],
  effect: 'read',
  stdout: 'the entry that admits the handle; nothing, and exit 3, if none does',
  parse: (args) => ({ handle: readHandle(args.argument('handle')) }),
  async run(context, { handle }) {
    const { inbound_policy: policy, canonical_handle: own } = await read(context, 'getActingAgent', {});
    const admitting = [handle, toOwnerGlob(handle)];
    const entries = policy === 'open' ? [] : await readOwnEntries(context);
    const by = policy === 'open' ? 'open' : (admitting.find((entry) => entries.includes(entry)) ?? null);
    // A service that does not say the policy may still have a list.
    const allowed = by === null && policy === null ? null : by !== null;
    await context.output.document({ handle, allowed, by, as: own }, (safe) => safe.by ?? '');
    if (by !== null) return;
    const next = ['asp', 'allowlist', 'add', handle.slice(1)];
    throw allowed === null
      ? await notFound(
          `No entry of the allowlist of ${own} admits ${handle}.`,
          'the service does not say whether the policy of the agent is open.',
          next,
        )
      : await notFound(`${handle} may not reach ${own}.`, 'no entry of its allowlist admits it.', next);
  },
});

const NO_KNOCKS = { messages: { ASP_NOT_OFFERED: 'The service does not keep the invitations that it refused.' } };

export const knockList = command({
  path: 'knock list',
  summary: 'list strangers refused while the policy is hold, latest first',
  details:
    'To them, hold looks like allowlist. asp allowlist add lets one in, and asp block add keeps it out for good; both take it off this list. The texts come from strangers.',
  examples: [
    { line: 'asp knock list', about: 'who, how often, when last, and what they wrote' },
    { line: 'asp knock list --json', about: 'for a script' },
  ],
  effect: 'read',
  stdout: describeTable('sender, times, last, text'),
  async run(context) {
    const handle = await context.actingHandle();
    const about = { ...NO_KNOCKS, subject: `the knocks of ${handle}` };
    const { knocks: items } = await read(context, 'listKnocks', { path: splitHandle(handle) }, about);
    await context.output.list({ items, next_cursor: null }, [
      { title: 'sender', value: ({ sender }) => sender },
      { title: 'times', value: ({ times }) => String(times), isOptional: true },
      timeColumn('last', ({ last_at: at }) => at, context.clock.now()),
      { title: 'text', value: ({ text }) => text ?? '', isFlexible: true },
    ]);
    if (items.length === 0)
      await context.output.note('No one is waiting. Only an agent whose policy is hold remembers strangers.');
  },
});

export const knockDismiss = command({
  path: 'knock dismiss',
  summary: 'take strangers off the list; they are not notified, and may knock again',
  details: MAY_BE_PARTIAL,
  arguments: [{ usage: '<handles...>', about: '@owner.name or owner.name' }],
  examples: [
    { line: 'asp knock dismiss spam.bot', about: 'one' },
    { line: 'asp knock dismiss spam.bot,noise.bot --json', about: 'two, for a script' },
  ],
  effect: 'write',
  stdout: 'the handles, one per line',
  parse: (args) => ({ senders: readHandles(args.argument('handles')) }),
  async run(context, { senders }) {
    const own = splitHandle(await context.actingHandle());
    const inputOf = (sender: string) => ({ path: { ...own, sender } });
    const preview = (sender: string): Promise<void> => printRequest(context, 'dismissKnock', inputOf(sender));
    const print = printResults<{ sender: string }>(context, { title: 'dismissed', value: ({ sender }) => sender });
    await changeEach(context, { names: senders, did: 'Dismissed', print, preview }, async (sender) => {
      await write(context, 'dismissKnock', inputOf(sender), notAmongKnocks(sender)).catch((error: unknown) =>
        explainAbsence(context, own, error),
      );
      return { sender };
    });
  },
});

/** A service without knocks does not have their list either. @throws The error, or `ASP_NOT_OFFERED` */
async function explainAbsence(context: Context, own: ReturnType<typeof splitHandle>, error: unknown): Promise<never> {
  const { RequestError } = await import('../../client/http/request-error.js');
  const hasCode = (one: unknown, code: string): boolean => one instanceof RequestError && one.code === code;
  if (hasCode(error, 'NOT_FOUND'))
    await read(context, 'listKnocks', { path: own }, NO_KNOCKS).catch((second: unknown) => {
      throw hasCode(second, 'ASP_NOT_OFFERED') ? second : error;
    });
  throw error;
}

const notAmongKnocks = (sender: string) => ({
  subject: sender,
  messages: { ...NO_KNOCKS.messages, NOT_FOUND: `${sender} is not on the list of knocks.` },
  reasons: {},
  next: { NOT_FOUND: ['asp', 'knock', 'list'] },
});
