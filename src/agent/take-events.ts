import type { Client, TailItem } from '../client/client.js';
import { isMessageEvent } from '../wire/event.js';
import { ENDS_SESSION, findInReplyTo } from '../wire/message.js';
import type { EventEnvelope } from '../wire/schemas/event.js';
import type { Message } from '../wire/schemas/message.js';
import {
  type Advice,
  type Answering,
  answer,
  answeredBefore,
  findIncoming,
  type Incoming,
  limitStop,
  type OnFailure,
  type OnLimit,
  type Responder,
  type RunRecord,
  type RunResult,
} from './answer.js';
import type { Claims, Turn } from './claims.js';
import { findInvitation, isInvitationFor } from './invitation.js';
import type { LimitName, LimitRules, Limits } from './limits.js';
import { type AgentContext, createOutageNotes, persist } from './persist.js';
import type { ProgressFile } from './progress-file.js';
import { isAmongTwo } from './reply-matcher.js';
import type { SessionQueues } from './session-queues.js';
import type { StartPoints } from './start-points.js';
import type { TakenReports } from './taken-reports.js';
import type { UnansweredReports } from './unanswered-reports.js';

/** Whether an agent is answered. */
export type Admits = (handle: string) => Promise<boolean>;

/** How an agent answers. */
export interface AgentOptions {
  /** Who gets answers; empty: agents of the same owner, and the allowlist. */
  readonly from: readonly string[] | 'anyone';
  readonly joins: boolean;
  /** Whether other workers share the messages of this agent. */
  readonly isShared: boolean;
  /** Whether a session ends after the reply. */
  readonly ends: boolean;
  /** How many messages to answer; undefined: no limit. */
  readonly count: number | undefined;
  readonly concurrency: number;
  /** How long work in progress may take to finish after the stop. */
  readonly graceMs: number;
  /** Without progress: messages without a reply are answered from this time on. */
  readonly sinceMs: number | undefined;
  readonly onFailure: OnFailure;
  readonly onLimit: OnLimit;
  readonly limits: LimitRules;
}

/** Events of several sessions may arrive out of order; those older than this are settled. */
const SETTLED_AFTER_MS = 60_000;
/** How many events of one session are searched for replies of an earlier run. */
const HELD_MAX = 256;

/** The parts of an agent. */
export interface AgentParts {
  readonly context: AgentContext;
  readonly advice: Advice;
  readonly client: Client;
  readonly me: string;
  readonly options: AgentOptions;
  readonly progress: ProgressFile;
  readonly points: StartPoints;
  readonly queues: SessionQueues;
  readonly respond: Responder['respond'];
  readonly passesOver?: Responder['passesOver'];
  readonly reports: TakenReports;
  readonly unanswered: UnansweredReports;
  readonly limits: Limits;
  /** Set if other workers share the messages. */
  readonly claims: Claims | undefined;
  readonly admits: Admits;
  /** Whether to join the session of an invitation; undefined: every one. */
  readonly accepts?: ((invitation: EventEnvelope) => Promise<boolean>) | undefined;
  /** Gets every new event, before a message in it is answered. */
  readonly onEvent?: ((event: EventEnvelope) => Promise<void>) | undefined;
  /** The backlog is known, and new messages are answered from now on. */
  readonly onReady: () => Promise<void>;
  readonly onRecord: (record: RunRecord) => Promise<void>;
  /** Ends everything that is only waiting. */
  readonly soft: AbortSignal;
  /** Ends everything in progress. */
  readonly signal: AbortSignal;
}

/** An event, and the message from another agent to answer, if it carries one. */
interface Taken {
  readonly event: EventEnvelope;
  readonly epoch: string | undefined;
  readonly incoming: Incoming | undefined;
}

/** The history of one session, until it is complete: only then is it clear what an earlier run replied to. */
interface Held {
  readonly sessionId: string;
  readonly taken: Taken[];
  /** The agent's replies, by the message that they answer. */
  readonly replies: Map<string, EarlierReply>;
}

/** A reply of an earlier run. */
interface EarlierReply {
  readonly message: Message;
  /** Whether the session ended after it: then its end is done, even if the session was reopened since. */
  isEnded: boolean;
}

/** Consumes the items of an agent's tail, one after the other. */
export class EventTaker {
  readonly #parts: AgentParts;
  readonly #ended = new Map<string, number>();
  readonly #tellOutage: ReturnType<typeof createOutageNotes>;
  #held: Held | undefined;
  #isReady = false;
  #isCaughtUp = false;
  #left: number;
  #pending = 0;

  constructor(parts: AgentParts) {
    this.#parts = parts;
    this.#tellOutage = createOutageNotes(parts.context);
    this.#left = parts.options.count ?? Number.POSITIVE_INFINITY;
  }

  /** Whether it wants more. */
  async take(item: TailItem): Promise<boolean> {
    const { output } = this.#parts.context;
    switch (item.kind) {
      case 'event':
        await this.#takeEvent(item.event, item.epoch);
        break;
      case 'ready':
        await this.#flush();
        await this.#tellOutage(item);
        if (!this.#isReady) await this.#parts.onReady();
        this.#isReady = true;
        this.#isCaughtUp = true;
        break;
      case 'reconnecting':
        this.#isCaughtUp = false;
        await output.detail(`reconnecting in ${Math.ceil(item.delayMs / 1000)} s: ${item.reason}`);
        await this.#tellOutage(item);
        break;
      case 'gap':
        await output.note(`${item.sessionId}: could not load events from ${item.from} on: ${item.reason}`);
        break;
      case 'restored':
        await this.#goBack(item);
        break;
      case 'end':
        break;
    }
    return this.#left > 0;
  }

  /** After a restore, the numbers of answered messages that are gone may be reused for other events. */
  async #goBack({ sessionId, after, from, epoch }: Extract<TailItem, { kind: 'restored' }>): Promise<void> {
    const { context, points, progress, limits } = this.#parts;
    points.goBack(sessionId, { after, epoch });
    progress.goBack(sessionId, { after, epoch });
    limits.goBack(sessionId, after);
    await context.output.note(
      `${sessionId}: the service was restored to an earlier state. Events ${after + 1} to ${from} are gone; continuing after ${after}.`,
    );
  }

  async #takeEvent(event: EventEnvelope, epoch: string | undefined): Promise<void> {
    const { session_id: sessionId, created_at: createdAt } = event;
    if (event.type === 'session.ended') this.#ended.set(sessionId, createdAt);
    else this.#ended.delete(sessionId);
    if (!this.#parts.points.isDone(event)) await this.#parts.onEvent?.(event);
    await this.#joinIfInvited(event, epoch);
    const taken = { event, epoch, incoming: await this.#findIncoming(event) };
    const answered = this.#findAnswered(event);
    if (answered !== undefined) this.#parts.claims?.noteReply(sessionId, ...answered);
    if (this.#isReady) return this.#enqueue(taken);
    if (this.#held !== undefined && (this.#held.sessionId !== sessionId || this.#held.taken.length >= HELD_MAX))
      await this.#flush();
    this.#held ??= { sessionId, taken: [], replies: new Map() };
    this.#held.taken.push(taken);
    if (event.type === 'session.ended') for (const reply of this.#held.replies.values()) reply.isEnded = true;
    if (answered !== undefined) this.#held.replies.set(answered[0], { message: answered[1], isEnded: false });
  }

  /** For a reply of this agent: the id of the message that it answers, and the reply itself. */
  #findAnswered(event: EventEnvelope): [string, Message] | undefined {
    if (!isMessageEvent(event) || event.payload.sender !== this.#parts.me) return undefined;
    const answered = findInReplyTo(event.payload);
    return answered === undefined ? undefined : [answered, event.payload];
  }

  async #flush(): Promise<void> {
    const held = this.#held;
    this.#held = undefined;
    for (const taken of held?.taken ?? [])
      await this.#enqueue(taken, taken.incoming && held?.replies.get(taken.incoming.payload.id));
  }

  /** `reply`: an earlier run sent it. */
  async #enqueue(taken: Taken, reply?: EarlierReply): Promise<void> {
    const { event, incoming } = taken;
    if (this.#left <= 0) return;
    if (incoming !== undefined && reply === undefined) this.#left -= 1;
    this.#pending += 1;
    const { queues, claims, options, signal } = this.#parts;
    if (claims === undefined || incoming === undefined || reply !== undefined)
      return queues.add(event.session_id, () => this.#work(taken, reply));
    claims.watch(event.session_id, incoming.payload.id);
    const finishes = ({ metadata }: Message): boolean => !options.ends && metadata?.[ENDS_SESSION] !== true;
    let turn: Turn | undefined;
    await queues.add(
      event.session_id,
      () => this.#work(taken, this.#findReply(incoming), turn),
      async () => {
        try {
          turn = await claims.begin(event, incoming.payload.id, finishes);
        } catch (error) {
          if (!signal.aborted) throw error;
          return { over: new Promise(() => {}) };
        }
        return turn.kind === 'later' ? turn : undefined;
      },
    );
  }

  /** The reply that another worker sent, if this one saw it. */
  #findReply(incoming: Incoming): EarlierReply | undefined {
    const message = this.#parts.claims?.findReply(incoming.session_id, incoming.payload.id);
    return message && { message, isEnded: false };
  }

  async #work({ event, epoch, incoming }: Taken, reply: EarlierReply | undefined, turn?: Turn): Promise<void> {
    const { context, advice, options, progress, claims, onRecord, signal } = this.#parts;
    const { clock, output } = context;
    const begin = async (begun: Incoming): Promise<number> =>
      Math.max(await progress.begin(begun), turn?.kind === 'ours' ? turn.attempt : 1);
    const answering: Answering = { ...options, ...this.#parts, begin };
    const beganAt = clock.monotonic();
    try {
      const work = async (message: Incoming): Promise<RunResult | undefined> => {
        if (turn?.kind === 'done') return undefined;
        if (reply === undefined) return answer(answering, message);
        const isElsewhere = turn?.kind === 'answered';
        const known = await answeredBefore(answering, message, reply.message, reply.isEnded || isElsewhere);
        return isElsewhere ? undefined : known;
      };
      const result = incoming && (await work(incoming));
      if (result !== undefined) {
        const durationMs = Math.round(clock.monotonic() - beganAt);
        const record: RunRecord = { ...result, at: clock.now(), duration_ms: durationMs };
        await onRecord(record);
      }
      if (turn !== undefined && incoming !== undefined) await claims?.end(event, incoming.payload.id);
      progress.advance(event.session_id, { after: event.sequence, epoch });
      if (event.type === 'session.ended') progress.awaited.endAt(event.session_id, event.sequence);
      this.#pending -= 1;
      this.#settle(event.created_at);
      if (result?.outcome === 'limited' && options.onLimit === 'stop') {
        await progress.written();
        throw limitStop(event, result.code as LimitName, advice);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
      await output.note(`${event.event_id}: left for the next run.`);
    }
  }

  /** Once nothing is waiting, everything older is done in all sessions. */
  #settle(createdAt: number): void {
    if (this.#pending > 0 || !this.#isCaughtUp) return;
    const settled = createdAt - SETTLED_AFTER_MS;
    const over = [...this.#ended].filter(([, endedAt]) => endedAt < settled).map(([sessionId]) => sessionId);
    for (const sessionId of over) this.#ended.delete(sessionId);
    this.#parts.progress.settleUpTo(settled, over);
  }

  /** A message for the agent to answer. */
  async #findIncoming(event: EventEnvelope): Promise<Incoming | undefined> {
    const { me, points, admits, passesOver } = this.#parts;
    // It takes every event, so that it knows what came after a question.
    const isAwaited = await this.#isAwaited(event);
    const isPassed = isAwaited || points.isDone(event) || passesOver?.(event) === true;
    const incoming = isPassed ? undefined : findIncoming(event, me);
    return incoming !== undefined && (await admits(incoming.payload.sender)) ? incoming : undefined;
  }

  /** Whether an event is a reply that another program of the agent waits for, such as its command. */
  #isAwaited(event: EventEnvelope): Promise<boolean> {
    const { context, client, me, progress, soft: signal } = this.#parts;
    const { session_id: sessionId } = event;
    return progress.awaited.take(event, me, async ({ sender }) => {
      const found = await persist(context, signal, () => isAmongTwo(client, { me, sessionId, sender, signal }));
      return found.kind === 'done' && found.reply;
    });
  }

  /** Messages from before the invitation were not meant for this agent; recorded on disk before they could be read. */
  async #beginAt({ session_id: sessionId, sequence }: EventEnvelope, epoch: string | undefined): Promise<void> {
    const { queues, progress } = this.#parts;
    if (queues.isBusy(sessionId) || this.#held?.sessionId === sessionId) return;
    progress.advance(sessionId, { after: sequence, epoch });
    await progress.written();
  }

  /** The session may have ended in the meantime; not an error. */
  async #joinIfInvited(event: EventEnvelope, epoch: string | undefined): Promise<void> {
    const { context, client, me, options, points, admits, soft: signal } = this.#parts;
    const { session_id: sessionId, payload } = event;
    if (!options.joins || isInvitationFor(event, me) === false || payload['initial_message'] !== undefined) return;
    if (points.isDone(event) && !points.invitations.includes(sessionId)) return;
    const found = await persist(context, signal, () => findInvitation(client, event, me, signal));
    const invitation = found.kind === 'done' ? found.reply : undefined;
    if (invitation === undefined) {
      // Another worker was faster.
      if (options.isShared) await this.#beginAt(event, epoch);
      return;
    }
    const { by } = invitation;
    if (by === undefined ? options.from !== 'anyone' : !(await admits(by))) return;
    if ((await this.#parts.accepts?.(event)) === false) return;
    await this.#beginAt(event, epoch);
    const joined = await persist(context, signal, () =>
      client.call('joinSession', { path: { session_id: sessionId }, signal }),
    );
    const what = joined.kind === 'done' ? `joined ${sessionId}` : `could no longer join ${sessionId}`;
    await context.output.detail(what);
  }
}
