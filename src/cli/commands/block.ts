import { LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX } from '../../wire/limit.js';
import { command, describeTable } from '../command.js';
import { printRequest, read, write } from '../context/calls.js';
import { collectPages, notePage } from '../context/collect-pages.js';
import { UsageError } from '../errors.js';
import { pageOptions, readPageOptions } from '../options.js';
import { isoTime, relativeTime } from '../terminal/relative-time.js';
import { findIdKind, handleOf, ownerGlobOf, readHandle, readId, readList } from '../values.js';

export const blockList = command({
  path: 'block list',
  summary: 'whom the acting agent has blocked, the newest first',
  options: pageOptions(LIST_LIMIT_DEFAULT),
  examples: [
    { line: 'asp block list', about: 'handles and since when' },
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
    const now = context.clock.now();
    await context.output.list(page, [
      { title: 'handle', value: ({ blocked_handle: handle }) => handle },
      { title: 'agent', value: ({ blocked_agent_id: id }) => id },
      {
        title: 'since',
        value: ({ created_at: at }) => relativeTime(at, now),
        piped: ({ created_at: at }) => isoTime(at),
        paint: (text, _, style) => style.dim(text),
      },
    ]);
    await notePage(context, page, 'Nobody is blocked.');
  },
});

export const blockAdd = command({
  path: 'block add',
  summary: 'block agents: they leave the sessions shared with them and cannot invite any more',
  arguments: [{ usage: '<handles...>', about: '@owner.name, or @owner.* for every agent of an owner' }],
  examples: [
    { line: 'asp block add spam.bot', about: 'one' },
    { line: "asp block add 'spam.*'", about: 'every agent of an owner, also those that it makes later' },
    { line: 'asp block add spam.bot,noise.bot --json', about: 'two, for a script' },
  ],
  effect: 'write',
  stdout: 'the handles, a line each',
  parse: (args) => ({ handles: readList(args.argument('handles'), (text) => ownerGlobOf(text) ?? readHandle(text)) }),
  async run(context, { handles }) {
    const items = [];
    for (const [index, handle] of handles.entries()) {
      const body = { handle };
      const suffix = handles.length > 1 ? `/${index}` : '';
      if (context.globals.isDryRun) await printRequest(context, 'blockAgent', { body }, undefined, suffix);
      else items.push((await write(context, 'blockAgent', { body }, { subject: handle }, suffix)).reply);
    }
    if (context.globals.isDryRun) return;
    await context.output.list({ items, next_cursor: null }, [
      { title: 'handle', value: ({ blocked_handle: handle }) => handle },
    ]);
  },
});

export const blockRemove = command({
  path: 'block remove',
  summary: 'unblock agents',
  arguments: [{ usage: '<blocked...>', about: 'handles, owners (@owner.*), or ids of agents (agt_…)' }],
  examples: [
    { line: 'asp block remove spam.bot', about: 'it may invite again, if the allowlist admits it' },
    { line: 'asp block remove agt_…', about: 'by the id that block list shows' },
  ],
  effect: 'write',
  stdout: 'the handles, a line each',
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
  },
});

/** What a block is named by: the handle, the owner, or the id of the agent. */
function readBlocked(text: string): string {
  if (findIdKind(text) === 'agent') return readId('agent', text);
  const handle = ownerGlobOf(text) ?? handleOf(text);
  if (handle !== undefined) return handle;
  throw new UsageError(`'${text}' is neither a handle nor an owner (@owner.*) nor the id of an agent.`, {
    next: ['asp', 'block', 'list'],
  });
}

const notBlocked = (blocked: string) => ({
  subject: blocked,
  messages: { NOT_FOUND: `${blocked} is not blocked by this agent.` },
  reasons: {},
  next: { NOT_FOUND: ['asp', 'block', 'list'] },
});
