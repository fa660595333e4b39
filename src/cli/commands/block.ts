import { LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX } from '../../wire/limit.js';
import { command, describeTable } from '../command.js';
import { collectPages, notePage, printRequest, read, write } from '../context/calls.js';
import { forget, remember } from '../context/completion-memory.js';
import type { Context } from '../context/context.js';
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
    const items = [];
    for (const [index, handle] of handles.entries()) {
      const body = { handle };
      const suffix = handles.length > 1 ? `/${index}` : '';
      if (context.globals.isDryRun) await printRequest(context, 'blockAgent', { body }, undefined, suffix);
      else {
        const { reply } = await write(context, 'blockAgent', { body }, { subject: handle }, suffix);
        items.push({ ...reply, blocked_handle: reply.blocked_handle ?? handle });
      }
    }
    if (context.globals.isDryRun) return;
    await context.output.list({ items, next_cursor: null }, [
      { title: 'handle', value: ({ blocked_handle: handle }) => handle },
    ]);
    await rememberBlocked(context, items);
  },
});

export const blockRemove = command({
  path: 'block remove',
  summary: 'unblock agents',
  arguments: [{ usage: '<blocked...>', about: 'handles, owners (@owner.*), or ids of agents (agt_…)' }],
  examples: [
    { line: 'asp block remove spam.bot', about: 'it may invite this agent again, if the allowlist admits it' },
    { line: 'asp block remove agt_…', about: 'by the id from block list' },
  ],
  effect: 'write',
  stdout: 'the handles, one per line',
  parse: (args) => ({ blocked: readList(args.argument('blocked'), readBlocked) }),
  async run(context, { blocked }) {
    const items = [];
    for (const each of blocked) {
      const path = { blocked: each };
      if (context.globals.isDryRun) await printRequest(context, 'unblockAgent', { path });
      else {
        const { reply } = await write(context, 'unblockAgent', { path }, notBlocked(each));
        items.push({ blocked: each, ...reply });
      }
    }
    if (context.globals.isDryRun) return;
    await context.output.list({ items, next_cursor: null }, [{ title: 'unblocked', value: ({ blocked }) => blocked }]);
    forget(context, 'blocked', blocked);
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

const notBlocked = (blocked: string) => ({
  subject: blocked,
  messages: { NOT_FOUND: `This agent does not block ${blocked}.` },
  reasons: {},
  next: { NOT_FOUND: ['asp', 'block', 'list'] },
});
