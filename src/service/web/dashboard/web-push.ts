import { createHash, ECDH } from 'node:crypto';
import { within } from '../../../kit/clock.js';
import { repeat } from '../../../kit/repeat.js';
import { readRetryAfter } from '../../../kit/retry-after.js';
import { RETRY_JITTER_MS } from '../../../wire/limit.js';
import type { LogFields, OwnProcess, ServiceContext } from '../../core/context.js';
import { isOutage, ServiceError } from '../../core/errors.js';
import { isOutsideUrl, type OutsideNetwork, PUBLIC_INTERNET, requestOutside } from '../../core/public-internet.js';
import { rareWarning } from '../../core/rare-warning.js';
import { findSignedInAccount } from '../../store/browser-sessions.js';
import { eachRow } from '../../store/cursor.js';
import {
  claimPushKeys,
  clearPushQueue,
  deleteDeadSubscription,
  deleteNotified,
  holdPush,
  isSubscribed,
  listNotified,
  listPushSubscriptions,
  listQueuedForPush,
  listStirredAccounts,
  type PushSubscriptionRow,
  putPushSubscription,
  updateNotified,
} from '../../store/push.js';
import { NEEDS_PATH } from './frame.js';
import { isCut, listNeeds, type Need } from './needs-you.js';

/** How often the service looks for accounts to notify. */
const LOOK_MS = 1_000;
/** An account is notified at most once in this time. One message is about everything that comes up in the meantime. */
const PAUSE_MS = 10_000;
/** A longer one began before the clock was set back; clocks of services differ by less. */
const LONGEST_PAUSE_MS = 60_000;
/** Rows of other processes, with their clocks, may appear this much later than their time says. */
const LATE_MAX_MS = 60_000;
/** Remembered entries of an account that may still be in a list that is cut. */
const NOTIFIED_MAX = 2_000;
/** Browsers of one account. */
export const PUSH_BROWSERS_MAX = 10;

const ENDPOINT_MAX_LENGTH = 1_024;
const POINT_BYTES = 65;
const AUTH_BYTES = 16;
/** The library treats it as the address of an older protocol. */
const OLD_PROTOCOL = 'https://android.googleapis.com/gcm/send';

/** A push service keeps a message for a browser that is not running this long. */
const LIFETIME_S = 24 * 60 * 60;
const TIMEOUT_MS = 5_000;
const SENT_AT_ONCE_MAX = 16;
/** A message that takes longer no longer counts as one of these: an account that names a slow server must not delay others. */
const TURN_MS = 1_000;
/** Of one account: the servers that it names may be slow. */
const SENT_AT_ONCE_OF_ACCOUNT_MAX = 4;
const WAITING_MAX = 1_000;
/** Of one account: a few for each of its browsers, so that it cannot fill the queue of everyone. */
const WAITING_OF_ACCOUNT_MAX = 4 * PUSH_BROWSERS_MAX;
const RETRY_AFTER_MAX_MS = 10 * 60_000;
/** How long messages may still be sent when the service stops. */
const STOP_MS = 2_000;

/** What a browser says about itself when it subscribes (W3C Push API). */
export type SubscriptionKeys = Pick<PushSubscriptionRow, 'endpoint' | 'p256dh' | 'auth'>;

/** Whether the service can encrypt for these keys, and may send requests to this address. */
export function isUsable({ endpoint, p256dh, auth }: SubscriptionKeys): boolean {
  if (!isOutsideUrl(endpoint, ENDPOINT_MAX_LENGTH) || endpoint.startsWith(OLD_PROTOCOL)) return false;
  if (!/^[\w-]{1,100}$/.test(p256dh) || !/^[\w-]{1,50}$/.test(auth)) return false;
  const point = Buffer.from(p256dh, 'base64url');
  if (point.length !== POINT_BYTES || Buffer.from(auth, 'base64url').length !== AUTH_BYTES) return false;
  try {
    ECDH.convertKey(point, 'prime256v1');
    return true;
  } catch {
    // It is not a point of the curve.
    return false;
  }
}

/** Notifies a browser from now on. False: the account has too many. */
export function subscribe(
  context: Pick<ServiceContext, 'clock' | 'database' | 'settings'>,
  row: Omit<PushSubscriptionRow, 'created_at'>,
): Promise<boolean> {
  const { account_id: accountId } = row;
  return context.database.write(async (transaction) => {
    await holdPush(transaction, accountId);
    const now = context.clock.now();
    const signedIn = await findSignedInAccount(transaction, row.session_hash, now);
    // It was signed out in the meantime.
    if (signedIn?.id !== accountId) throw new ServiceError('FORBIDDEN');
    const others = (await listPushSubscriptions(transaction, accountId)).filter(
      (one) => one.session_hash !== row.session_hash && one.endpoint !== row.endpoint,
    );
    if (others.length >= PUSH_BROWSERS_MAX) return false;
    if (others.length === 0) {
      // No one followed what came up until now. It is on the page where this is turned on.
      await deleteNotified(transaction, accountId);
      const needs = (await listNeeds(context, accountId, transaction)).map(({ key }) => key);
      await updateNotified(transaction, accountId, { needs, over: [], now: 0 });
    }
    await putPushSubscription(transaction, { ...row, created_at: now });
    return true;
  });
}

/** What a locked screen may show: the kind of entry and the agents, but no text of anyone. */
interface Notice {
  readonly title: string;
  readonly body: string;
  readonly path: string;
  /** A later notice with the same tag replaces this one. */
  readonly tag: string;
}

function toNotice(needs: readonly Need[]): Notice {
  const [first] = needs;
  if (first === undefined || needs.length > 1)
    return { title: `${needs.length} things need you`, body: '', path: NEEDS_PATH, tag: 'needs-you' };
  const { key, title, agent, path } = first;
  return { title, body: agent === undefined ? '' : `For ${agent}`, path, tag: key };
}

/** Push services take 32 characters (RFC 8030 §5.4), and need not know what the message is about. */
const toTopic = ({ tag }: Notice): string => createHash('sha256').update(tag).digest('base64url').slice(0, 32);

/** A message to one browser. */
interface Outgoing {
  readonly to: PushSubscriptionRow;
  readonly notice: Notice;
  readonly tries: number;
}

type PushContext = Pick<ServiceContext, 'clock' | 'database' | 'log' | 'meter' | 'random' | 'settings'>;

/** What a person gets who wants to see whether notifications arrive. */
const TEST_NOTICE: Notice = {
  title: 'Notifications work',
  body: 'This is the test that you asked for.',
  path: NEEDS_PATH,
  tag: 'test',
};

/** Background work that tells browsers without an open page what needs their person. */
export interface WebPush {
  /** Sends a notification that only shows that it arrives. */
  sendTest(to: PushSubscriptionRow): void;
  stop(): Promise<void>;
}

export interface WebPushOptions {
  /** The person or page that push services may contact about this service: a `mailto:` or `https:` URL (RFC 8292 §2.1). */
  readonly contact: string;
  /** Only for tests. */
  readonly network?: OutsideNetwork | undefined;
  /** Messages that are sent, or wait for it; those beyond it are dropped. */
  readonly waitingMax?: number;
}

/**
 * Looks for accounts to notify, behind the log. Of several processes, the one whose transaction
 * records an entry first sends it. So an entry is sent once at most, even if that process dies before it could.
 */
export async function startWebPush(
  context: PushContext,
  own: Pick<OwnProcess, 'isClockRight'>,
  options: WebPushOptions,
): Promise<WebPush> {
  const { clock, database, log } = context;
  const sender = new PushSender(context, await openVapid(context), options);
  /** When an account that was notified may be notified again. */
  const free = new Map<string, number>();
  /** The latest knocks and reports of each account. No event announces them. */
  let looked: ReadonlyMap<string, string> = new Map();
  let since = clock.now() - LATE_MAX_MS;

  /** False: it must wait. */
  const tell = async (accountId: string): Promise<boolean> => {
    if ((free.get(accountId) ?? 0) > clock.monotonic()) return false;
    free.delete(accountId);
    const { waitMs, fresh, browsers } = await takeFresh(context, accountId);
    if (waitMs > 0) free.set(accountId, clock.monotonic() + waitMs);
    if (fresh.length > 0) for (const to of browsers) sender.send({ to, notice: toNotice(fresh), tries: 0 });
    return waitMs === 0;
  };
  const tellSafely = async (accountId: string): Promise<boolean> => {
    try {
      return await tell(accountId);
    } catch (error) {
      if (isOutage(error)) throw error;
      // The others must still be notified.
      log.error('web_push_look_failed', error);
      free.set(accountId, clock.monotonic() + PAUSE_MS);
      return false;
    }
  };
  const look = async (): Promise<void> => {
    // Push services would refuse its messages, and each entry is sent only once.
    if (!own.isClockRight) return;
    const beganAt = clock.now();
    for (const [accountId, at] of free) if (at <= clock.monotonic()) free.delete(accountId);
    const queued = eachRow<string>(database.pageRows, (last = '', limit) =>
      database.behind.read((query) => listQueuedForPush(query, last, limit)),
    );
    for await (const accountId of queued) await tellSafely(accountId);
    const stirred = await database.behind.read((query) => listStirredAccounts(query, since));
    const seen = new Map<string, string>();
    for (const { account_id: accountId, at, times } of stirred) {
      const mark = `${at} ${times}`;
      if (looked.get(accountId) === mark || (await tellSafely(accountId))) seen.set(accountId, mark);
    }
    looked = seen;
    since = beganAt - LATE_MAX_MS;
  };
  const stop = repeat(
    clock,
    LOOK_MS,
    look,
    (error) => {
      // An outage is reported once, by the code that notices it.
      if (!isOutage(error)) log.error('web_push_look_failed', error);
    },
    true,
  );
  return {
    sendTest: (to) => sender.send({ to, notice: TEST_NOTICE, tries: 0 }),
    async stop() {
      await stop();
      await sender.stop();
    },
  };
}

interface Fresh {
  /** How long the account must not be looked at; 0: not at all. */
  readonly waitMs: number;
  /** The entries about which it was not notified yet. From now on it was. */
  readonly fresh: readonly Need[];
  readonly browsers: readonly PushSubscriptionRow[];
}

function takeFresh(context: Pick<PushContext, 'clock' | 'database' | 'settings'>, accountId: string): Promise<Fresh> {
  return context.database.behind.write(async (transaction): Promise<Fresh> => {
    await holdPush(transaction, accountId);
    const now = context.clock.now();
    const browsers = await listPushSubscriptions(transaction, accountId);
    if (browsers.length === 0) {
      await clearPushQueue(transaction, accountId);
      await deleteNotified(transaction, accountId);
      return { waitMs: 0, fresh: [], browsers };
    }
    const notified = await listNotified(transaction, accountId);
    const pauses = notified.map((row) => row.notified_at + PAUSE_MS - now).filter((ms) => ms <= LONGEST_PAUSE_MS);
    const waitMs = Math.max(0, ...pauses);
    if (waitMs > 0) return { waitMs, fresh: [], browsers };
    await clearPushQueue(transaction, accountId);
    const needs = await listNeeds(context, accountId, transaction);
    const known = new Set(notified.map(({ need }) => need));
    const fresh = needs.filter(({ key }) => !known.has(key));
    // An entry beyond the end of a list comes back when others go.
    const mayComeBack = isCut(needs) && notified.length < NOTIFIED_MAX;
    const current = new Set(needs.map(({ key }) => key));
    const over = mayComeBack ? [] : [...known].filter((need) => !current.has(need));
    await updateNotified(transaction, accountId, { needs: fresh.map(({ key }) => key), over, now });
    return { waitMs: 0, fresh, browsers };
  });
}

/**
 * The messages that wait, are on their way, or rest until their next try. Accounts share the queue fairly: one that has
 * many browsers, or slow push services, neither delays nor displaces the messages of others.
 */
class FairQueue {
  readonly #max: number;
  readonly #onDropped: () => void;
  readonly #waiting: Outgoing[] = [];
  /** The account of each message on its way, by the work that sends it. */
  readonly #sending = new Map<Promise<void>, string>();
  /** The account of each message that rests, by the function that cancels its next try. */
  readonly #resting = new Map<() => void, string>();

  constructor(max: number, onDropped: () => void) {
    this.#max = max;
    this.#onDropped = onDropped;
  }

  get isSending(): boolean {
    return this.#sending.size > 0;
  }

  /** False: the message was dropped. */
  add(message: Outgoing): boolean {
    const counts = this.#count();
    const own = counts.get(message.to.account_id) ?? 0;
    const total = this.#waiting.length + this.#sending.size + this.#resting.size;
    const hasRoom = own < WAITING_OF_ACCOUNT_MAX && (total < this.#max || this.#makeRoom(counts, own));
    if (hasRoom) this.#waiting.push(message);
    else this.#onDropped();
    return hasRoom;
  }

  /** The first message of the account that has the fewest on their way. It does not wait anymore. */
  takeNext(): Outgoing | undefined {
    const counts = countEach(this.#sending.values());
    let [index, fewest] = [-1, SENT_AT_ONCE_OF_ACCOUNT_MAX];
    for (const [at, { to }] of this.#waiting.entries()) {
      const count = counts.get(to.account_id) ?? 0;
      if (count < fewest) [index, fewest] = [at, count];
    }
    return index < 0 ? undefined : this.#waiting.splice(index, 1)[0];
  }

  beginSending({ to }: Outgoing, work: Promise<void>): void {
    this.#sending.set(work, to.account_id);
  }

  endSending(work: Promise<void>): void {
    this.#sending.delete(work);
  }

  beginRest({ to }: Outgoing, cancel: () => void): void {
    this.#resting.set(cancel, to.account_id);
  }

  /** The message waits for its next try. */
  endRest(message: Outgoing, cancel: () => void): void {
    this.#resting.delete(cancel);
    this.#waiting.push(message);
  }

  dropResting(): void {
    for (const cancel of this.#resting.keys()) {
      cancel();
      this.#onDropped();
    }
    this.#resting.clear();
  }

  dropWaiting(): void {
    for (const _ of this.#waiting.splice(0)) this.#onDropped();
  }

  /** All messages of each account. */
  #count(): Map<string, number> {
    const waiting = this.#waiting.map(({ to }) => to.account_id);
    return countEach([...waiting, ...this.#sending.values(), ...this.#resting.values()]);
  }

  /** Drops the latest message of the account with the most. False: it would then have no more than the `own` ones. */
  #makeRoom(counts: ReadonlyMap<string, number>, own: number): boolean {
    let [index, most] = [-1, own + 1];
    for (const [at, { to }] of this.#waiting.entries()) {
      const count = counts.get(to.account_id) ?? 0;
      if (count > most || (count === most && index >= 0)) [index, most] = [at, count];
    }
    if (index < 0) return false;
    this.#waiting.splice(index, 1);
    this.#onDropped();
    return true;
  }
}

function countEach(accountIds: Iterable<string>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const accountId of accountIds) counts.set(accountId, (counts.get(accountId) ?? 0) + 1);
  return counts;
}

/** The keys by which push services recognize this service (RFC 8292), and the library that signs with them. */
interface Vapid {
  readonly library: typeof import('web-push');
  readonly privateKey: string;
  readonly publicKey: string;
}

/** All processes use the same keys. */
async function openVapid({ database }: PushContext): Promise<Vapid> {
  // Loaded here, so that a service without Web Push does not wait for it.
  const { default: library } = await import('web-push');
  const made = library.generateVAPIDKeys();
  const fresh = `${made.privateKey} ${made.publicKey}`;
  const claimed = await database.write((transaction) => claimPushKeys(transaction, fresh));
  const [privateKey = '', publicKey = ''] = claimed.split(' ');
  return { library, privateKey, publicKey };
}

/** Sends a few messages at a time. */
class PushSender {
  readonly #context: PushContext;
  readonly #vapid: Vapid;
  readonly #contact: string;
  readonly #network: OutsideNetwork;
  readonly #queue: FairQueue;
  readonly #warn: (error: unknown, fields: LogFields) => void;
  /** Messages on their way that are counted. */
  #turns = 0;
  #isStopping = false;
  #whenIdle = (): void => {};

  constructor(context: PushContext, vapid: Vapid, options: WebPushOptions) {
    const { contact, network = PUBLIC_INTERNET, waitingMax = WAITING_MAX } = options;
    this.#context = context;
    this.#vapid = vapid;
    this.#contact = contact;
    this.#network = network;
    this.#queue = new FairQueue(waitingMax, () => context.meter.pushed('dropped'));
    this.#warn = rareWarning(context, 'web_push_failed');
  }

  send(message: Outgoing): void {
    if (this.#queue.add(message)) this.#pump();
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#queue.dropResting();
    const idle = new Promise<void>((resolve) => {
      this.#whenIdle = resolve;
    });
    if (this.#queue.isSending) await within(this.#context.clock, STOP_MS, idle, () => {});
    this.#queue.dropWaiting();
  }

  #pump(): void {
    while (this.#turns < SENT_AT_ONCE_MAX) {
      const message = this.#queue.takeNext();
      if (message === undefined) break;
      const endTurn = this.#beginTurn();
      const work: Promise<void> = this.#deliver(message)
        .catch((error: unknown) => this.#fail(message, isOutage(error) ? undefined : error))
        .finally(() => {
          endTurn();
          this.#queue.endSending(work);
          this.#pump();
        });
      this.#queue.beginSending(message, work);
    }
    if (!this.#queue.isSending) this.#whenIdle();
  }

  /** Returns what ends a turn, which also ends on its own. */
  #beginTurn(): () => void {
    this.#turns += 1;
    let cancel: (() => void) | undefined = this.#context.clock.schedule(
      TURN_MS,
      () => {
        end();
        this.#pump();
      },
      true,
    );
    const end = (): void => {
      cancel?.();
      if (cancel !== undefined) this.#turns -= 1;
      cancel = undefined;
    };
    return end;
  }

  async #deliver(message: Outgoing): Promise<void> {
    const { database, meter } = this.#context;
    const { to } = message;
    // The browser may have been signed out while the message waited.
    if (!(await database.behind.read((query) => isSubscribed(query, to)))) return;
    const answer = await this.#post(message).catch((error: unknown) => ({ error }));
    if ('error' in answer) return this.#tryAgain(message, answer.error, 0);
    const { status, retryAfterMs } = answer;
    const error = new Error(`The push service answered with ${status}.`);
    if (status >= 200 && status < 300) meter.pushed('sent');
    else if (status === 404 || status === 410) {
      meter.pushed('gone');
      await database.behind.write((transaction) => deleteDeadSubscription(transaction, to.endpoint));
    } else if (status === 429 || status >= 500) this.#tryAgain(message, error, retryAfterMs);
    else this.#fail(message, error);
  }

  /** The status of the answer, and how long the push service wants to be left alone. */
  #post({ to, notice }: Outgoing): Promise<{ readonly status: number; readonly retryAfterMs: number }> {
    const { library, privateKey, publicKey } = this.#vapid;
    const { endpoint, p256dh, auth } = to;
    const { headers, body } = library.generateRequestDetails(
      { endpoint, keys: { p256dh, auth } },
      JSON.stringify(notice),
      {
        vapidDetails: { subject: this.#contact, publicKey, privateKey },
        TTL: LIFETIME_S,
        urgency: 'normal',
        topic: toTopic(notice),
      },
    );
    const request = { url: new URL(endpoint), method: 'POST', headers, body, timeoutMs: TIMEOUT_MS } as const;
    return requestOutside(this.#context.clock, this.#network, request, async (answer) => ({
      status: answer.statusCode ?? 0,
      retryAfterMs: readRetryAfter(answer.headers, this.#context.clock.now()) ?? 0,
    }));
  }

  #tryAgain(message: Outgoing, error: unknown, retryAfterMs: number): void {
    const { clock, meter, random } = this.#context;
    const jitter = RETRY_JITTER_MS[message.tries];
    if (jitter === undefined || retryAfterMs > RETRY_AFTER_MAX_MS || this.#isStopping) {
      this.#fail(message, error);
      return;
    }
    meter.pushed('retried');
    const [min, max] = jitter;
    const cancel = clock.schedule(
      retryAfterMs + min + random.fraction() * (max - min),
      () => {
        this.#queue.endRest({ ...message, tries: message.tries + 1 }, cancel);
        this.#pump();
      },
      true,
    );
    this.#queue.beginRest(message, cancel);
  }

  /** An outage of the database has no error here: the code that notices it reports it once. */
  #fail({ to }: Outgoing, error: unknown): void {
    this.#context.meter.pushed('failed');
    // The rest of the address is a secret.
    if (error !== undefined) this.#warn(error, { host: new URL(to.endpoint).host });
  }
}
