import type { Context } from '../../context/context.js';
import { printRequest, write } from '../../context/write.js';
import { readHandles, readId } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import { aboutVerb, refuseOmissions, showChange } from './lifecycle.js';

export interface InviteOptions {
  readonly sessionId: string;
  readonly handles: readonly string[];
  readonly isStrict: boolean;
}

export function parse(words: Words): InviteOptions {
  const [session = '', ...handles] = words.arguments;
  return { sessionId: readId('session', session), handles: readHandles(handles), isStrict: words.flag('strict') };
}

export async function run(context: Context, { sessionId, handles, isStrict }: InviteOptions): Promise<void> {
  const path = { session_id: sessionId };
  const body = { invite: [...handles] };
  if (context.globals.isDryRun) return printRequest(context, 'inviteToSession', { path, body });
  const about = aboutVerb({
    sessionId,
    action: 'invite',
    refusal: 'only someone who has joined an active session can invite; the service does not tell more.',
  });
  const { reply, idempotencyKey } = await write(context, 'inviteToSession', { path, body }, about);
  const omitted = handles.filter((handle) => !reply.invited.includes(handle));
  const result = {
    session_id: sessionId,
    action: 'invite',
    state: 'active',
    invited: reply.invited,
    omitted,
    idempotency_key: idempotencyKey ?? null,
    as: (await context.knownHandle()) ?? null,
  } as const;
  const who = reply.invited.length === 0 ? 'nobody' : reply.invited.join(', ');
  await showChange(context, result, `Invited ${who} to ${sessionId}`);
  if (isStrict) refuseOmissions(omitted, 'The rest was done.');
}
