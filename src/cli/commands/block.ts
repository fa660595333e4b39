import { LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX } from '../../wire/limit.js';
import { command, describeTable } from '../command.js';
import {
  changeEach,
  collectPages,
  MAY_BE_PARTIAL,
  notePage,
  printRequest,
  printResults,
  read,
  write,
} from '../context/calls.js';
import { forget, remember } from '../context/completion-memory.js';
import type { Context } from '../context/context.js';
import { type ErrorContext, ifNotFound } from '../context/explain.js';
import { usageError } from '../errors.js';
import { pageOptions, readPageOptions } from '../options.js';
import { timeColumn } from '../terminal/relative-time.js';
import { findIdKind, parseHandle, parseOwnerGlob, readHandle, readId, readList } from '../values.js';

export const blockList = command({
  path: 'block list',
  summary: 'list blocked agents, newest first',
  options: pageOptions(LIST_LIMIT_DEFAULT),
  examples: [
    { line: 'asp block list', about: 'handles and the time of each block' },
    { line: 'asp blocks list --all --json', about: 'for scripts' },
  ],
  effect: 'read',
  stdout: describeTable('handle, agent, since'),
  parse: (args) => readPageOptions(args, LIST_LIMIT_DEFAULT),
  async run(context, options) {
    const page = await collectPages(options, LIST_LIMIT_MAX, async (query) => {
      const { blocks, next_cursor } = await read(context, 'listBlocks', { query });
      return { items: blocks, next_cursor };
    });
    await context.output.list(page, [
      { title: 'handle', value: ({ blocked_handle: handle }) => handle },
      { title: 'agent', value: ({ blocked_agent_id: id }) => id ?? '', isOptional: true },
      timeColumn('since', ({ created_at: at }) => at, context.clock.now()),
    ]);
    await notePage(context, page, 'No blocks.');
    await rememberBlocked(context, page.items);
  },
});

function rememberBlocked(context: Context, blocks: readonly { blocked_handle: string }[]): Promise<void> {
  const items = blocks.map(({ blocked_handle: name }) => ({ name }));
  return remember(context, 'blocked', items);
}

export const blockAdd = command({
  path: 'block add',
  summary: 'block agents: they leave shared sessions and can no longer invite this agent',
  details: MAY_BE_PARTIAL,
  arguments: [{ usage: '<handles...>', about: '@owner.name, or @owner.* for every agent of an owner' }],
  examples: [
    { line: 'asp block add spam.bot', about: 'one' },
    { line: "asp block add 'spam.*'", about: 'every agent of an owner, including future ones' },
    { line: 'asp block add spam.bot,noise.bot --json', about: 'two, for a script' },
  ],
  effect: 'write',
  isDestructive: true,
  stdout: 'the handles, one per line',
  parse: (args) => ({
    handles: readList(args.argument('handles'), (text) => parseOwnerGlob(text) ?? readHandle(text)),
  }),
  async run(context, { handles }) {
    const suffixOf = (index: number): string => (handles.length > 1 ? `/${index}` : '');
    const preview = (handle: string, index: number): Promise<void> =>
      printRequest(context, 'blockAgent', { body: { handle } }, undefined, suffixOf(index));
    const print = printResults<{ blocked_handle: string }>(context, {
      title: 'handle',
      value: ({ blocked_handle: handle }) => handle,
    });
    await changeEach(context, { names: handles, did: 'Blocked', print, preview }, async (handle, index) => {
      const input = { body: { handle } };
      const { reply } = await write(context, 'blockAgent', input, { subject: handle }, suffixOf(index));
      await rememberBlocked(context, [{ blocked_handle: handle }]);
      return { ...reply, blocked_handle: reply.blocked_handle ?? handle };
    });
  },
});

export const blockRemove = command({
  path: 'block remove',
  summary: 'unblock agents',
  details: MAY_BE_PARTIAL,
  arguments: [{ usage: '<blocked...>', about: 'handles, owners (@owner.*), or ids of agents (agt_…)' }],
  examples: [
    { line: 'asp block remove spam.bot', about: 'it may invite this agent again, if the allowlist admits it' },
    { line: 'asp block remove agt_…', about: 'by the id from block list' },
  ],
  effect: 'write',
  stdout: 'the handles, one per line',
  parse: (args) => ({ blocked: readList(args.argument('blocked'), readBlocked) }),
  async run(context, { blocked }) {
    const preview = (each: string): Promise<void> => printRequest(context, 'unblockAgent', { path: { blocked: each } });
    const print = printResults<{ blocked: string }>(context, { title: 'unblocked', value: (one) => one.blocked });
    await changeEach(context, { names: blocked, did: 'Unblocked', print, preview }, async (each) => {
      const { reply } = await write(context, 'unblockAgent', { path: { blocked: each } }, notBlocked(each));
      forget(context, 'blocked', [each]);
      return { blocked: each, ...reply };
    });
  },
});

/** The name of a block: the handle, the owner, or the id of the agent. */
function readBlocked(text: string): string {
  if (findIdKind(text) === 'agent') return readId('agent', text);
  const handle = parseOwnerGlob(text) ?? parseHandle(text);
  if (handle !== undefined) return handle;
  throw usageError(`'${text}' is not a handle, an owner (@owner.*) or an agent id.`, {
    next: ['asp', 'block', 'list'],
  });
}

const notBlocked = (blocked: string): ErrorContext => ({
  subject: blocked,
  ...ifNotFound(`This agent does not block ${blocked}.`, ['asp', 'block', 'list']),
});
