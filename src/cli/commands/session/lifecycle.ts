import type { Context } from '../../context/context.js';
import type { About } from '../../context/explain.js';
import { printRequest, write } from '../../context/write.js';
import { CliError } from '../../terminal/cli-error.js';

/** What every lifecycle verb says. */
export interface LifecycleResult {
  readonly session_id: string;
  readonly action: string;
  /** Null where the verb does not tell it. */
  readonly state: 'active' | 'ended' | null;
  /** Both null where the service could not be asked who was left out. */
  readonly invited?: readonly string[] | null;
  readonly omitted?: readonly string[] | null;
  readonly idempotency_key: string | null;
  readonly as: string | null;
}

/** A verb that needs no body. */
interface Verb {
  readonly operation: 'joinSession' | 'leaveSession' | 'endSession';
  readonly sessionId: string;
  readonly action: string;
  readonly state: LifecycleResult['state'];
  /** The remark on stderr. */
  readonly done: string;
  /** Why it may have been refused, as far as that is known. */
  readonly refusal: string;
}

export function aboutVerb({ sessionId, action, refusal }: Pick<Verb, 'sessionId' | 'action' | 'refusal'>): About {
  return {
    subject: sessionId,
    messages: { NOT_FOUND: `${sessionId}: ${action} is not possible for this agent.` },
    reasons: { NOT_FOUND: refusal },
    next: { NOT_FOUND: ['asp', 'session', 'show', sessionId] },
  };
}

/** Does what a verb asks; the session id on stdout, the remark on stderr. */
export async function changeSession(context: Context, verb: Verb): Promise<void> {
  const { operation, sessionId, action, state, done } = verb;
  const path = { session_id: sessionId };
  if (context.globals.isDryRun) return printRequest(context, operation, { path });
  const { idempotencyKey } = await write(context, operation, { path }, aboutVerb(verb));
  const as = (await context.knownHandle()) ?? null;
  await showChange(
    context,
    { session_id: sessionId, action, state, idempotency_key: idempotencyKey ?? null, as },
    done,
  );
}

/** The result of a verb: its id on stdout, the remark on stderr. */
export async function showChange(context: Context, result: LifecycleResult, done: string): Promise<void> {
  if (context.output.format === 'human') {
    await context.output.note(`${done}${result.as === null ? '' : ` as ${result.as}`}.`);
    if (result.omitted && result.omitted.length > 0)
      await context.output.note(`Left out: ${result.omitted.join(', ')}.`);
  }
  await context.output.document(result, (safe) => safe.session_id);
}

/** What `--strict` asks for. `rest` says what was done all the same. */
export function refuseOmissions(omitted: readonly string[] | null, rest: string): void {
  if (omitted?.length === 0) return;
  const who = omitted === null ? 'Who could be invited is not known.' : `${omitted.join(', ')} could not be invited.`;
  throw new CliError('ASP_PARTIAL', { message: `${who} ${rest}`, outcome: 'applied' });
}
