import { randomUuid } from '../../../kit/random.js';
import type { InitialMessage } from '../../../wire/session.js';
import type { Context } from '../../context/context.js';
import { printRequest } from '../../context/write.js';
import type { Words } from '../../words/words.js';
import { buildContent } from './build-content.js';
import { createBody, endSession, sendMessage } from './deliver.js';
import { readSendOptions, type SendOptions } from './send-options.js';
import { noteSent, printSent, type SendResult, showSent } from './send-result.js';

export type { SendOptions } from './send-options.js';

export function parse(words: Words): SendOptions {
  return readSendOptions(words);
}

export async function run(given: Context, options: SendOptions): Promise<void> {
  if (options.isByLines) return (await import('./send-lines.js')).sendLines(given, options);
  const context = options.files.length === 0 ? given : withOneKey(given);
  const sent = options.isEdited
    ? await (await import('./send-draft.js')).sendDraft(context, options, (edited) => send(context, edited))
    : await send(context, options);
  if (sent === undefined) return;
  if (sent.created_session) await rememberFor(context, sent);
  if (!options.waits) {
    await showSent(context, await endAfter(context, options, sent));
  } else {
    const { waitForReply } = await import('./wait-for-reply.js');
    await noteSent(context, sent);
    const reply = await waitForReply(context, sent.session_id, sent.sequence ?? 0);
    const isEnded = options.endsAfterReply && (await endSession(context, sent.session_id, 'The reply came'));
    await printSent(context, { ...sent, state: isEnded ? 'ended' : sent.state, reply });
  }
  if (!options.isStrict) return;
  const { refuseOmissions } = await import('../session/lifecycle.js');
  refuseOmissions(sent.omitted, 'The message was sent.');
}

/** The message itself; undefined when it was only to be shown. */
async function send(context: Context, options: SendOptions): Promise<SendResult | undefined> {
  const { content, uploaded, isRepeatable } = await buildContent(context, options);
  const message: InitialMessage = { content, ...(options.metadata && { metadata: { ...options.metadata } }) };
  if (!context.globals.isDryRun)
    return { ...(await sendMessage(context, options, message, isRepeatable)), attachments: uploaded };
  await dryRun(context, options, message);
  return undefined;
}

/** Into a session, the end is a request of its own. */
async function endAfter(context: Context, { target, ends }: SendOptions, sent: SendResult): Promise<SendResult> {
  if (!ends || target.kind !== 'session') return sent;
  await endSession(context, target.sessionId, 'The message was sent');
  return { ...sent, state: 'ended' };
}

/** Completions offer the session and whom it reached; a program that acts by its environment leaves nothing behind. */
async function rememberFor(context: Context, { session_id, invited }: SendResult): Promise<void> {
  if ((await context.credential()).source !== 'login') return;
  const { rememberWords } = await import('../../context/completion-memory.js');
  await rememberWords(context, 'sessions', [session_id]);
  await rememberWords(context, 'handles', invited ?? []);
}

/** Uploads and message under one key: repeated with it, the same files are attached, and the request is the same. */
function withOneKey(context: Context): Context {
  const { globals, random } = context;
  if (globals.idempotencyKey !== undefined || globals.once !== undefined || globals.isDryRun) return context;
  return { ...context, globals: { ...globals, idempotencyKey: randomUuid(random) } };
}

async function dryRun(context: Context, { target, topic, ends }: SendOptions, message: InitialMessage): Promise<void> {
  if (target.kind === 'session')
    return printRequest(context, 'sendMessage', { path: { session_id: target.sessionId }, body: message });
  const body = createBody(target.handles, topic, ends, message);
  return printRequest(context, 'createSession', { body });
}
