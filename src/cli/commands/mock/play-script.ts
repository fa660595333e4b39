import type { Incoming, Produced, Responder, RunRecord } from '../../../agent/answer.js';
import { replyMetadata } from '../../../agent/answer.js';
import { persist } from '../../../agent/persist.js';
import { wait } from '../../../kit/clock.js';
import { stableKey } from '../../../kit/stable-key.js';
import { CHOICES, textOfMessage } from '../../../wire/message.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import type { Content, JsonObject } from '../../../wire/schemas/requests.js';
import type { Context } from '../../context/context.js';
import { CliError, usageError } from '../../errors.js';
import { shorten } from '../../terminal/output.js';
import { type AgentSeat, answerUntilStopped, startProgress } from '../run/serve-agent.js';
import type { MockOptions } from './mock.js';
import { type Action, fits, type Happening, happeningOf, type Rule, readScript } from './script.js';

/** Messages are counted in this many sessions; the oldest ones are forgotten. */
const SESSIONS_MAX = 1_000;
const SHOWN_WIDTH = 60;

/** Answers from a script until it is stopped, and says by its exit code whether everything happened that had to. */
export async function playScript(context: Context, options: MockOptions): Promise<void> {
  const rules = await readScript(context, options.script);
  const required = rules.filter((rule) => rule.required === true);
  if (options.untilMet && required.length === 0)
    throw usageError('--until-met needs a rule to wait for.', { why: 'none has "required": true.' });
  const met = new AbortController();
  const signal = AbortSignal.any([context.signal, met.signal]);
  const uses = new Map<Rule, number>();
  const wanting = (): Rule[] => required.filter((rule) => (uses.get(rule) ?? 0) < (rule.times ?? 1));
  const endIfMet = (): void => {
    if (options.untilMet && wanting().length === 0) met.abort();
  };
  const end = await answerUntilStopped({ ...context, signal }, options, async (agent, answer) => {
    // Each test starts from now: only the lock of the agent's progress is used.
    const progress = await startProgress(context, agent, undefined, options.sinceMs);
    const actor = new Actor(context, agent, rules, uses, options.isStrict);
    await answer({
      progress,
      progressPath: undefined,
      respond: actor.respond,
      async accepts(invitation) {
        const isAccepted = await actor.accepts(invitation);
        endIfMet();
        return isAccepted;
      },
      async onRecord(record) {
        await context.output.record({ ...record, rule: actor.ruleOf(record) });
        endIfMet();
      },
    });
  });
  const missing = wanting();
  if (missing.length > 0)
    throw new CliError('ASP_NOT_AS_EXPECTED', {
      message: `${missing.length} of ${required.length} required rules of ${options.script} did not get their messages.`,
      why: `${missing.map((rule) => `${rule.label} was used ${uses.get(rule) ?? 0} of ${rule.times ?? 1} times`).join(', ')}.`,
      outcome: 'applied',
    });
  if (end === 'timeout' && required.length === 0)
    throw new CliError('ASP_TIMEOUT', { message: 'Timed out.', isRetryable: true });
}

/** Plays the agent. */
class Actor {
  readonly #context: Context;
  readonly #agent: AgentSeat;
  readonly #rules: readonly Rule[];
  readonly #uses: Map<Rule, number>;
  readonly #isStrict: boolean;
  readonly #counts = new Map<string, number>();
  /** The rules of messages whose records are not printed yet. */
  readonly #played = new Map<string, string>();

  constructor(context: Context, agent: AgentSeat, rules: readonly Rule[], uses: Map<Rule, number>, isStrict: boolean) {
    this.#context = context;
    this.#agent = agent;
    this.#rules = rules;
    this.#uses = uses;
    this.#isStrict = isStrict;
  }

  readonly respond: Responder['respond'] = async (event, signal, onTaken) => {
    onTaken();
    const said = happeningOf(event.payload, this.#count(event.session_id));
    const rule = await this.#use(said);
    if (rule === undefined) {
      await this.#reportUnmatched(event);
      return { ...NOTHING, text: '' };
    }
    this.#played.set(event.event_id, rule.label);
    return rule.on === 'invitation' ? { ...NOTHING, text: '' } : this.#perform(event, rule.do, signal);
  };

  async accepts({ session_id: id, payload }: EventEnvelope): Promise<boolean> {
    const rule = await this.#use({ from: String(payload['by']), text: String(payload['topic'] ?? ''), nth: 0 });
    const what = rule?.on === 'invitation' ? rule.do : 'join';
    if (what === 'leave') {
      await this.#settle(id, 'joinSession');
      await this.#settle(id, 'leaveSession');
    }
    if (what !== 'join')
      await this.#context.output.note(`${id}: the invitation was answered with ${what} (${rule?.label}).`);
    return what === 'join';
  }

  ruleOf({ event_id: id }: RunRecord): string | null {
    const label = this.#played.get(id);
    this.#played.delete(id);
    return label ?? null;
  }

  #count(sessionId: string): number {
    const count = (this.#counts.get(sessionId) ?? 0) + 1;
    this.#counts.delete(sessionId);
    this.#counts.set(sessionId, count);
    const [oldest] = this.#counts.keys();
    if (this.#counts.size > SESSIONS_MAX && oldest !== undefined) this.#counts.delete(oldest);
    return count;
  }

  /** The first rule that fits and is not used up. */
  async #use(happening: Happening): Promise<Rule | undefined> {
    for (const rule of this.#rules) {
      const uses = this.#uses.get(rule) ?? 0;
      if (rule.times !== undefined && uses >= rule.times) continue;
      const isFit = fits(rule, happening);
      if (isFit === 'too slow')
        await this.#context.output.note(`${rule.label}: its pattern took longer than a second; it does not match.`);
      if (isFit !== true) continue;
      this.#uses.set(rule, uses + 1);
      return rule;
    }
    return undefined;
  }

  async #reportUnmatched({ event_id: id, payload }: Incoming): Promise<void> {
    const message = `${id}: no rule fits this message of ${payload.sender}: ${shorten(textOfMessage(payload).replaceAll('\n', ' '), SHOWN_WIDTH)}`;
    if (this.#isStrict)
      throw new CliError('ASP_NOT_AS_EXPECTED', { message, why: '--strict is set.', outcome: 'applied' });
    await this.#context.output.note(message);
  }

  /** The last message is the reply, which the engine sends. */
  async #perform(event: Incoming, actions: readonly Action[], signal: AbortSignal): Promise<Produced> {
    const play = async (part: readonly Action[]): Promise<void> => {
      for (const action of part) await this.#act(event, action, actions.indexOf(action), signal);
    };
    if (actions.at(-1) === 'fail') {
      await play(actions.slice(0, -1));
      return { kind: 'failed', exitCode: null, tries: 1, why: 'the script says so' };
    }
    const at = actions.findLastIndex((action) => spokenBy(action) !== undefined);
    await play(actions.slice(0, Math.max(0, at)));
    const spoken = spokenBy(actions[at]);
    const after = (): Promise<void> => play(actions.slice(at + 1));
    if (spoken === undefined) return { ...NOTHING, text: '', after };
    const { content, metadata } = spoken;
    const text = typeof content === 'string' ? content : JSON.stringify(content);
    return { ...NOTHING, text, content, metadata, after };
  }

  async #act(event: Incoming, action: Action, at: number, signal: AbortSignal): Promise<void> {
    const { session_id: id } = event;
    if (action === 'end') return this.#settle(id, 'endSession');
    if (action === 'leave') return this.#settle(id, 'leaveSession');
    if (action === 'fail') return;
    if (action.delay !== undefined) return wait(this.#context.clock, action.delay, signal);
    const spoken = spokenBy(action);
    if (spoken === undefined) return;
    const { client, me } = this.#agent;
    const path = { session_id: id };
    const body = { content: spoken.content, metadata: { ...spoken.metadata, ...replyMetadata(event.payload) } };
    const idempotencyKey = stableKey(me, `POST /sessions/${id}/messages`, `mock:${event.event_id}:${at}`);
    const send = () => client.call('sendMessage', { path, body, idempotencyKey, signal });
    await this.#report(id, 'a message', await persist(this.#context, signal, send));
  }

  /** A change of the session, which someone else may have made impossible meanwhile. */
  async #settle(id: string, operation: 'joinSession' | 'leaveSession' | 'endSession'): Promise<void> {
    const { client, hard } = this.#agent;
    const { signal } = hard;
    const call = () => client.call(operation, { path: { session_id: id }, signal });
    await this.#report(id, operation.replace('Session', ''), await persist(this.#context, signal, call));
  }

  async #report(id: string, what: string, settled: Awaited<ReturnType<typeof persist>>): Promise<void> {
    if (settled.kind === 'refused')
      await this.#context.output.note(`${id}: ${what} was refused: ${settled.error.code}`);
  }
}

const NOTHING = { kind: 'printed', exitCode: null, tries: 1 } as const;

/** The message of an action, if it is one. */
function spokenBy(action: Action | undefined): { content: Content; metadata: JsonObject } | undefined {
  if (typeof action !== 'object') return undefined;
  const { reply, ask, choices = [], metadata = {} } = action;
  if (reply !== undefined) return { content: reply, metadata };
  return ask === undefined ? undefined : { content: ask, metadata: { ...metadata, [CHOICES]: choices } };
}
