import { command, describeTable } from '../command.js';
import { printRequest, read, write } from '../context/calls.js';
import type { Context } from '../context/context.js';
import { timeColumn } from '../terminal/relative-time.js';
import { readHandles, toHandlePath } from '../values.js';

const NO_KNOCKS = { messages: { ASP_NOT_OFFERED: 'The service does not keep the invitations that it refused.' } };

export const knockList = command({
  path: 'knock list',
  summary: 'list strangers refused under the policy hold, latest first',
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
    const { knocks: items } = await read(context, 'listKnocks', { path: toHandlePath(handle) }, about);
    await context.output.list({ items, next_cursor: null }, [
      { title: 'sender', value: ({ sender }) => sender },
      { title: 'times', value: ({ times }) => String(times) },
      timeColumn('last', ({ last_at: at }) => at, context.clock.now()),
      { title: 'text', value: ({ text }) => text ?? '', isFlexible: true },
    ]);
    if (items.length === 0)
      await context.output.note('No one is waiting. Only an agent with the policy hold remembers strangers.');
  },
});

export const knockDismiss = command({
  path: 'knock dismiss',
  summary: 'take strangers off the list; they are not notified, and may knock again',
  arguments: [{ usage: '<handles...>', about: '@owner.name or owner.name' }],
  examples: [
    { line: 'asp knock dismiss spam.bot', about: 'one' },
    { line: 'asp knock dismiss spam.bot,noise.bot --json', about: 'two, for a script' },
  ],
  effect: 'write',
  stdout: 'the handles, one per line',
  parse: (args) => ({ senders: readHandles(args.argument('handles')) }),
  async run(context, { senders }) {
    const own = toHandlePath(await context.actingHandle());
    const items = [];
    for (const sender of senders) {
      const input = { path: { ...own, sender } };
      if (context.globals.isDryRun) await printRequest(context, 'dismissKnock', input);
      else {
        await write(context, 'dismissKnock', input, notListed(sender)).catch((error: unknown) =>
          explainAbsence(context, own, error),
        );
        items.push({ sender });
      }
    }
    if (context.globals.isDryRun) return;
    await context.output.list({ items, next_cursor: null }, [{ title: 'dismissed', value: ({ sender }) => sender }]);
  },
});

/** A service without knocks does not have their list either. @throws The error, or `ASP_NOT_OFFERED` */
async function explainAbsence(context: Context, own: ReturnType<typeof toHandlePath>, error: unknown): Promise<never> {
  const { RequestError } = await import('../../client/http/request-error.js');
  const hasCode = (one: unknown, code: string): boolean => one instanceof RequestError && one.code === code;
  if (hasCode(error, 'NOT_FOUND'))
    await read(context, 'listKnocks', { path: own }, NO_KNOCKS).catch((second: unknown) => {
      throw hasCode(second, 'ASP_NOT_OFFERED') ? second : error;
    });
  throw error;
}

const notListed = (sender: string) => ({
  subject: sender,
  messages: { ...NO_KNOCKS.messages, NOT_FOUND: `${sender} is not on the list of knocks.` },
  reasons: {},
  next: { NOT_FOUND: ['asp', 'knock', 'list'] },
});
