import type { IncomingMessage } from 'node:http';
import { putLast } from '../../kit/bounded-map.js';
import { within } from '../../kit/clock.js';
import { repeat } from '../../kit/repeat.js';
import { readRetryAfter } from '../../kit/retry-after.js';
import { readWebhookSecret, signWebhook } from '../../kit/webhook.js';
import { findActor } from '../../wire/event.js';
import { ID_PREFIX } from '../../wire/id.js';
import { WEBHOOK_FAILING_MAX_MS, WEBHOOK_TIMEOUT_MS } from '../../wire/limit.js';
import type { OwnProcess, ServiceContext } from '../core/context.js';
import { isOutage } from '../core/errors.js';
import { type OutsideNetwork, requestOutside } from '../core/public-internet.js';
import { rareWarning } from '../core/rare-warning.js';
import { eachRow } from '../store/cursor.js';
import type { ReadEventRow } from '../store/events.js';
import { listPending, type PendingRow } from '../store/inboxes.js';
import { hasSocket } from '../store/processes.js';
import {
  type ClaimedWebhook,
  claimWebhook,
  type DueWebhook,
  holdsWebhook,
  listDueWebhooks,
  queueAllWebhooks,
  releaseWebhook,
  type WebhookResult,
} from '../store/webhooks.js';
import { readNext } from './delivery.js';
import { envelopeText, toEnvelope } from './events.js';
import { refuseUrl } from './webhooks.js';

/** How often the service looks for agents with new events. */
const LOOK_MS = 1_000;
/** Webhooks that are called at once: in all, and of one account, whose receivers may be slow. */
const CALLED_AT_ONCE_MAX = 64;
const CALLED_AT_ONCE_OF_ACCOUNT_MAX = 4;
/** After this long, an agent with more to send waits for its next turn. */
const TURN_MS = 10_000;
/** A process that dies keeps its webhooks this long: a turn, and the call that began at its end. */
const CLAIM_MS = 30_000;
/** An agent with a connection gets its events there. After this long, the service looks whether it has confirmed them. */
const CONNECTED_MS = 5_000;
/** After this long, the service looks again whether an agent is still paused, or its account suspended. */
const INACTIVE_MS = 60_000;
/** Agents whose next turn begins elsewhere than with their first session. */
const RESUMED_MAX = 10_000;
/** How long calls may still be answered when the service stops. */
const STOP_MS = 2_000;
/** After the first failures; then after the last of these. */
const RETRY_MS = [5_000, 15_000, 60_000, 5 * 60_000, 15 * 60_000, 30 * 60_000, 60 * 60_000] as const;
const RETRY_MAX_MS = 60 * 60_000;
/** A service that was asleep for a day has not tried for a day. */
const OFF_FAILURES_MIN = 10;
const RETRY_JITTER = 0.2;

/** A slow receiver keeps the events of one read in memory, so they are few: two or three of the largest. */
const READ_MAX_CHARACTERS = 256 * 1024;

/** Events about connections come and go, and wake no one. */
const ABOUT_CONNECTIONS: ReadonlySet<string> = new Set(['session.disconnected', 'session.reconnected']);

type CallsContext = Pick<
  ServiceContext,
  'clock' | 'database' | 'ids' | 'inboxes' | 'log' | 'meter' | 'random' | 'settings'
>;

/** Background work that calls the webhooks of agents without a connection. */
export interface WebhookCalls {
  /** Waits a moment for calls that are on their way. */
  stop(): Promise<void>;
}

/** Why a call was not answered with success. */
interface Failure {
  /** For the owner of the agent. */
  readonly reason: string;
  /** The receiver will never take a call again. */
  readonly isFinal: boolean;
  readonly retryAfterMs: number;
}

/**
 * Calls a webhook with each event that its agent has not received, in order within a session, one call at a time. An
 * answer of success proves that the event arrived, as a pong does on a socket, and moves the same cursor. So an event that
 * was answered as a process died may come again, and none is left out. The inbox is the queue; what waits in it waits
 * for as long as calls fail.
 */
export async function startWebhookCalls(
  context: CallsContext,
  own: Pick<OwnProcess, 'isClockRight'>,
  network: OutsideNetwork,
): Promise<WebhookCalls> {
  const { clock, database, log } = context;
  const calls = createCalls(context, network);
  /** The session after which the next turn of an agent begins, so that one with many events does not keep the others waiting. */
  const resumeAfter = new Map<string, string>();
  /** The agents whose webhooks this process calls now. */
  const turns = new Map<string, { readonly accountId: string; readonly done: Promise<void> }>();
  /** Where the next look begins, so that everyone gets a turn. */
  let after = '';
  /** Accounts with too much to do, and the first of their agents that had to wait in the last round. */
  let waiting = new Map<string, string>();
  /** The same in this round. */
  let passedOver = new Map<string, string>();
  let isStopped = false;

  const countOf = (accountId: string): number =>
    [...turns.values()].filter((turn) => turn.accountId === accountId).length;
  const begin = ({ agent_id: agentId, account_id: accountId }: DueWebhook): void => {
    const done = takeTurn(context, calls, agentId, { resumeAfter, isStopped: () => isStopped })
      .catch((error: unknown) => {
        // An outage is reported once, by the code that notices it. The claim ends on its own.
        if (!isOutage(error) && !isStopped) log.error('webhook_turn_failed', error);
      })
      .finally(() => turns.delete(agentId));
    turns.set(agentId, { accountId, done });
  };
  const visit = (webhook: DueWebhook): void => {
    const { agent_id: agentId, account_id: accountId } = webhook;
    // Those before it had a turn.
    if (turns.has(agentId) || agentId < (waiting.get(accountId) ?? '')) return;
    if (countOf(accountId) < CALLED_AT_ONCE_OF_ACCOUNT_MAX) begin(webhook);
    else if (!passedOver.has(accountId)) passedOver.set(accountId, agentId);
  };
  /** Begins turns for the agents from `after` on, up to `until`. */
  const lookFrom = async (until: string | undefined): Promise<void> => {
    for (;;) {
      const from = after;
      const due = await database.behind.read((query) => listDueWebhooks(query, from, clock.now(), database.pageRows));
      for (const webhook of due) {
        if (turns.size >= CALLED_AT_ONCE_MAX || isStopped) return;
        after = webhook.agent_id;
        if (until !== undefined && webhook.agent_id > until) return;
        visit(webhook);
      }
      if (due.length < database.pageRows) break;
    }
    after = '';
    waiting = passedOver;
    passedOver = new Map();
  };
  const look = async (): Promise<void> => {
    // Receivers would refuse its signatures, and a next try would be at the wrong time for the other processes.
    if (!own.isClockRight) return;
    const start = after;
    await lookFrom(undefined);
    if (start !== '' && after === '') await lookFrom(start);
  };

  await database.write((transaction) => queueAllWebhooks(transaction, clock.now(), database.isExclusive));
  const stop = repeat(
    clock,
    LOOK_MS,
    look,
    (error) => {
      if (!isOutage(error)) log.error('webhook_look_failed', error);
    },
    true,
  );
  return {
    async stop() {
      isStopped = true;
      await stop();
      const ended = Promise.all([...turns.values()].map(({ done }) => done));
      // A slow receiver must not keep the rest of the service from stopping in order.
      await within(clock, STOP_MS, ended, () => {});
    },
  };
}

/** Sends what one agent has not received, until nothing is left, a call fails or the turn is over. */
async function takeTurn(
  context: CallsContext,
  calls: Calls,
  agentId: string,
  { resumeAfter, isStopped }: { readonly resumeAfter: Map<string, string>; readonly isStopped: () => boolean },
): Promise<void> {
  const { clock, database, inboxes } = context;
  const now = clock.now();
  const until = now + CLAIM_MS;
  const claim = await database.behind.write((transaction) =>
    claimWebhook(transaction, agentId, { now, until, later: now + INACTIVE_MS }),
  );
  const start = resumeAfter.get(agentId) ?? '';
  resumeAfter.delete(agentId);
  if (claim === undefined) return;
  const endsAt = clock.monotonic() + TURN_MS;
  const progress: TurnProgress = { isTestDue: claim.is_test_due, answeredAt: claim.answered_at };
  const { token } = database.epoch();
  const isLost = (): boolean => database.epoch().token !== token;
  const isOver = (): boolean => isStopped() || isLost() || clock.monotonic() >= endsAt;
  const end = await sendAll(context, calls, claim, { progress, isLost, isOver, start });
  if (end.after !== undefined) putLast(resumeAfter, agentId, end.after, RESUMED_MAX);
  await inboxes.settleFor(agentId);
  const outcome =
    end.failure === undefined ? succeed(progress, end.nextAt) : fail(context, claim, progress, end.failure);
  await database.behind.write((transaction) => releaseWebhook(transaction, claim, outcome, clock.now()));
}

/** What a turn has achieved so far. */
interface TurnProgress {
  isTestDue: number;
  answeredAt: number | null;
}

interface Turn {
  readonly progress: TurnProgress;
  /** After a failover, what was sent may be gone, and its numbers may be used again. */
  readonly isLost: () => boolean;
  readonly isOver: () => boolean;
  /** It begins after this session. */
  readonly start: string;
}

/**
 * How a turn ended. `nextAt`: there may be more to send then; null: everything was sent. `after`: the session after which
 * the next turn begins; a call that failed is repeated first.
 */
type TurnEnd = { readonly after?: string | undefined } & (
  | { readonly failure?: undefined; readonly nextAt: number | null }
  | { readonly failure: Failure }
);

async function sendAll(context: CallsContext, calls: Calls, claim: ClaimedWebhook, turn: Turn): Promise<TurnEnd> {
  const { clock, inboxes } = context;
  const { progress, isOver } = turn;
  if (progress.isTestDue === 1) {
    const failure = await calls.test(claim);
    if (failure !== undefined) return { failure };
    progress.isTestDue = 0;
    progress.answeredAt = clock.now();
  }
  await inboxes.settleFor(claim.agent_id);
  let after = turn.start;
  for await (const row of listFrom(context, claim.agent_id, turn.start)) {
    if (isOver()) return { nextAt: clock.now(), after };
    const end = await sendSession(context, calls, claim, row, turn);
    if (end === 'connected') return { nextAt: clock.now() + CONNECTED_MS };
    if (end === 'some') return { nextAt: clock.now(), after: row.session_id };
    if (end !== 'all') return { failure: end, after };
    after = row.session_id;
  }
  return { nextAt: null };
}

/** The sessions of an agent with something to deliver: those after `start`, and then the others. */
async function* listFrom(context: CallsContext, agentId: string, start: string): AsyncGenerator<PendingRow> {
  yield* listAfter(context, agentId, start);
  if (start === '') return;
  for await (const row of listAfter(context, agentId, '')) {
    if (row.session_id > start) return;
    yield row;
  }
}

const listAfter = ({ database }: CallsContext, agentId: string, start: string): AsyncGenerator<PendingRow> =>
  eachRow<PendingRow>(database.pageRows, (last, limit) =>
    database.behind.read((query) => listPending(query, agentId, last?.session_id ?? start, limit)),
  );

/** Whether the next event may be sent, or a connection gets it. */
async function mayContinue(
  { database }: CallsContext,
  claim: ClaimedWebhook,
  { isOver }: Turn,
): Promise<'yes' | 'some' | 'connected'> {
  if (isOver()) return 'some';
  const { isHeld, isConnected } = await database.behind.read(async (query) => ({
    isHeld: await holdsWebhook(query, claim),
    isConnected: await hasSocket(query, claim.agent_id),
  }));
  if (!isHeld) return 'some';
  return isConnected ? 'connected' : 'yes';
}

/** Sends the rest of a session; `some`: the turn was over before its end; `connected`: a connection gets the rest. */
async function sendSession(
  context: CallsContext,
  calls: Calls,
  claim: ClaimedWebhook,
  { session_id: sessionId, delivered_sequence: delivered }: PendingRow,
  turn: Turn,
): Promise<'all' | 'some' | 'connected' | Failure> {
  const { clock, inboxes, meter } = context;
  const { agent_id: agentId, handle } = claim;
  const { progress, isLost } = turn;
  let sent = delivered;
  for (;;) {
    const next = await readNext(context, agentId, sessionId, sent, READ_MAX_CHARACTERS);
    const { participation, events, hasMore } = next;
    for (const event of events) {
      const permission = await mayContinue(context, claim, turn);
      if (permission !== 'yes') return permission;
      if (concerns(event, handle)) {
        const failure = await calls.send(claim, event.id, envelopeText(event));
        if (failure !== undefined) return failure;
        progress.answeredAt = clock.now();
        meter.delivered();
        if (isLost()) return 'some';
      }
      sent = event.sequence;
      inboxes.delivered(agentId, sessionId, { sent, readThrough: 0 });
    }
    if (hasMore) continue;
    if (isLost()) return 'some';
    const readThrough = participation?.last_sequence ?? Number.MAX_SAFE_INTEGER;
    inboxes.delivered(agentId, sessionId, { sent, readThrough });
    return 'all';
  }
}

/** Whether an event may wake the agent: someone else caused it, and it is not about a connection. */
function concerns(event: ReadEventRow, handle: string): boolean {
  return !ABOUT_CONNECTIONS.has(event.type) && findActor(toEnvelope(event)) !== handle;
}

function succeed({ isTestDue, answeredAt }: TurnProgress, nextAt: number | null): WebhookResult {
  return {
    is_test_due: isTestDue,
    next_at: nextAt,
    failures: 0,
    failing_since: null,
    failure: null,
    answered_at: answeredAt,
    off_at: null,
  };
}

function fail(
  { clock, meter, random }: CallsContext,
  claim: ClaimedWebhook,
  { isTestDue, answeredAt }: TurnProgress,
  { reason, isFinal, retryAfterMs }: Failure,
): WebhookResult {
  const now = clock.now();
  // A call that was answered in this turn ended the failures before it.
  const hadAnswer = answeredAt !== claim.answered_at;
  const failures = hadAnswer ? 1 : claim.failures + 1;
  const failingSince = (hadAnswer ? null : claim.failing_since) ?? now;
  const isHopeless = now - failingSince >= WEBHOOK_FAILING_MAX_MS && failures >= OFF_FAILURES_MIN;
  const isOff = isFinal || isHopeless;
  if (isOff) meter.called('off');
  const pauseMs = RETRY_MS[Math.min(failures, RETRY_MS.length) - 1] ?? RETRY_MAX_MS;
  const waitMs = Math.max(pauseMs * (1 + random.fraction() * RETRY_JITTER), retryAfterMs);
  return {
    is_test_due: isTestDue,
    next_at: isOff ? null : Math.round(now + waitMs),
    failures,
    failing_since: failingSince,
    failure: reason,
    answered_at: answeredAt,
    off_at: isOff ? now : null,
  };
}

interface Calls {
  /** Sends an event. Undefined: it was answered with success. */
  send(claim: ClaimedWebhook, id: string, body: string): Promise<Failure | undefined>;
  /** The same with an event that only says that it is a test. */
  test(claim: ClaimedWebhook): Promise<Failure | undefined>;
}

function createCalls(context: CallsContext, network: OutsideNetwork): Calls {
  const { clock, ids, meter, settings } = context;
  const warn = rareWarning(context, 'webhook_failed');
  const send: Calls['send'] = async ({ url, secret, handle }, id, body) => {
    const address = new URL(url);
    const key = readWebhookSecret(secret) ?? Buffer.alloc(0);
    const headers = {
      ...signWebhook(key, id, Math.floor(clock.now() / 1000), body),
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      'user-agent': `asp/${settings.version ?? ''}`,
      'x-asp-agent': handle,
      'x-asp-event-id': id,
    };
    const request = {
      url: address,
      method: 'POST',
      headers,
      body: Buffer.from(body),
      timeoutMs: WEBHOOK_TIMEOUT_MS,
    } as const;
    // It may have been set while the service called any address.
    const mayCall = settings.webhooks !== 'public' || refuseUrl(context, url) === undefined;
    const failure = mayCall
      ? await requestOutside(clock, network, request, (answer) => readAnswer(answer, clock.now())).catch(describeFault)
      : NOT_PUBLIC;
    meter.called(failure === undefined ? 'answered' : 'failed');
    if (failure !== undefined) warn(new Error(failure.reason), { host: address.host });
    return failure;
  };
  return {
    send,
    test(claim) {
      const id = `${ID_PREFIX.event}${ids.ulid()}`;
      const event = { type: 'webhook.test', event_id: id, created_at: clock.now(), payload: { agent: claim.handle } };
      return send(claim, id, JSON.stringify(event));
    },
  };
}

async function readAnswer({ statusCode = 0, headers }: IncomingMessage, nowMs: number): Promise<Failure | undefined> {
  if (statusCode >= 200 && statusCode < 300) return undefined;
  const isRedirect = statusCode >= 300 && statusCode < 400;
  return {
    reason: isRedirect ? `HTTP ${statusCode}, and redirects are not followed` : `HTTP ${statusCode}`,
    isFinal: statusCode === 410,
    retryAfterMs: Math.min(RETRY_MAX_MS, readRetryAfter(headers, nowMs) ?? 0),
  };
}

const NOT_PUBLIC: Failure = {
  reason: 'the service calls only https addresses with a host name',
  isFinal: false,
  retryAfterMs: 0,
};

/** One of a few sentences: what exactly went wrong would tell a stranger about the network of the service. */
function describeFault(error: unknown): Failure {
  const { message = '', code = '' } = error instanceof Error ? (error as NodeJS.ErrnoException) : {};
  const isCertificate = /CERT|TLS|SSL|ALTNAME|SIGNATURE/.test(code);
  const reason =
    message === 'timed out'
      ? `no answer within ${WEBHOOK_TIMEOUT_MS / 1000} s`
      : isCertificate
        ? 'the certificate is not valid'
        : 'the address cannot be reached';
  return { reason, isFinal: false, retryAfterMs: 0 };
}
