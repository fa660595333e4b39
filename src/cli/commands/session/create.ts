import { rememberWords } from '../../context/completion-memory.js';
import type { Context } from '../../context/context.js';
import { printRequest, read, write } from '../../context/write.js';
import { UsageError } from '../../terminal/cli-error.js';
import { readHandles } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import { refuseOmissions, showChange } from './lifecycle.js';

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
  const present = handles.length < 2 ? handles : await participantsOf(context, sessionId);
  const invited = handles.filter((handle) => present.includes(handle));
  const omitted = handles.filter((handle) => !present.includes(handle));
  const result = {
    session_id: sessionId,
    action: 'create',
    state: 'active',
    invited,
    omitted,
    idempotency_key: idempotencyKey ?? null,
    as: (await context.knownHandle()) ?? null,
  } as const;
  await showChange(context, result, `Created ${sessionId}${invited.length === 0 ? '' : ` with ${invited.join(', ')}`}`);
  await rememberWords(context, 'sessions', [sessionId]);
  await rememberWords(context, 'handles', invited);
  refuseOmissions(omitted, isStrict);
}

async function participantsOf(context: Context, sessionId: string): Promise<readonly string[]> {
  const session = await read(context, 'getSession', { path: { session_id: sessionId } }, { subject: sessionId });
  return session.participants.map(({ handle }) => handle);
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
