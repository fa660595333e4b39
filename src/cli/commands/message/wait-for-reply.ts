import { isMessageEvent } from '../../../wire/event.js';
import type { Message } from '../../../wire/message.js';
import type { Context } from '../../context/context.js';
import { explain } from '../../context/explain.js';
import { CliError } from '../../terminal/cli-error.js';
import { withProgress } from '../../terminal/progress.js';

/** The next message of someone else after `sequence`; nothing between sending and listening is missed. */
export async function waitForReply(context: Context, sessionId: string, sequence: number): Promise<Message> {
  const { globals, streams, clock, output } = context;
  const what = `Waiting for a reply in ${sessionId}.`;
  await (output.format === 'human' ? output.note(what) : output.detail(what));
  const isAllowed = streams.stderr.isTerminal && !globals.isQuiet && !globals.isAccessible;
  return withProgress({ clock, isAllowed }, 'waiting for a reply', listen(context, sessionId, sequence));
}

async function listen(context: Context, sessionId: string, sequence: number): Promise<Message> {
  const me = await context.actingHandle();
  const client = await context.client();
  const next = ['asp', 'tail', sessionId, '--after', String(sequence)];
  const notInTime = (message: string): CliError =>
    new CliError('ASP_TIMEOUT', {
      message: `${sessionId}: ${message} Your message was sent.`,
      outcome: 'applied',
      next,
    });
  const first = async (): Promise<Message> => {
    const items = client.tail({ sessions: [{ sessionId, after: sequence }], signal: context.signal });
    for await (const item of items) {
      if (item.kind === 'event' && isMessageEvent(item.event) && item.event.payload.sender !== me)
        return item.event.payload;
      if (item.kind === 'end') throw notInTime('the session ended before anyone replied.');
    }
    throw notInTime('nobody replied in time.');
  };
  try {
    return await explain({ subject: sessionId }, first());
  } catch (error) {
    if (context.signal.aborted) throw notInTime('nobody replied in time.');
    throw error;
  }
}
