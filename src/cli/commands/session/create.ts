import { rememberWords } from '../../context/completion-memory.js';
import type { Context } from '../../context/context.js';
import { printRequest, write } from '../../context/write.js';
import { UsageError } from '../../terminal/cli-error.js';
import { readHandles } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import { refuseOmissions, showChange } from './lifecycle.js';
import { readInvited } from './read-invited.js';

export interface CreateOptions {
  readonly handles: readonly string[];
  readonly topic: string | undefined;
  readonly message: string | undefined;
  readonly isStrict: boolean;
}

export function parse(words: Words): CreateOptions {
  const message = words.text('message');
  if (message === '') throw new UsageError('The message is empty.');
  const handles = readHandles(words.arguments);
  return { handles, topic: words.text('topic'), message, isStrict: words.flag('strict') };
}

export async function run(context: Context, { handles, topic, message, isStrict }: CreateOptions): Promise<void> {
  const body = {
    ...(handles.length > 0 && { invite: [...handles] }),
    ...(topic !== undefined && { topic }),
    ...(message !== undefined && { initial_message: { content: message } }),
  };
  if (context.globals.isDryRun) return printRequest(context, 'createSession', { body });
  const { reply, idempotencyKey } = await write(context, 'createSession', { body }, aboutCreation(handles));
  const sessionId = reply.session_id;
  const invited = handles.length < 2 ? handles : await readInvited(context, sessionId, handles);
  const omitted = invited && handles.filter((handle) => !invited.includes(handle));
  const result = {
    session_id: sessionId,
    action: 'create',
    state: 'active',
    invited,
    omitted,
    idempotency_key: idempotencyKey ?? null,
    as: (await context.knownHandle()) ?? null,
  } as const;
  const who = invited === null || invited.length === 0 ? '' : ` with ${invited.join(', ')}`;
  await showChange(context, result, `Created ${sessionId}${who}`);
  await rememberWords(context, 'sessions', [sessionId]);
  await rememberWords(context, 'handles', invited ?? []);
  if (isStrict) refuseOmissions(omitted, 'The session was created.');
}

function aboutCreation(handles: readonly string[]) {
  const [first] = handles;
  if (first === undefined) return {};
  return {
    subject: handles.join(', '),
    messages: { NOT_FOUND: `${handles.join(', ')} could not be reached.` },
    reasons: {
      NOT_FOUND:
        'the service gives one answer for an unknown handle, a block, an allowlist and a paused agent; it does not say which.',
    },
    next: { NOT_FOUND: ['asp', 'agent', 'show', first.slice(1)] },
  };
}
