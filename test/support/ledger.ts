import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';

import type { Answer } from './http.js';
import { field } from './json.js';

const RETRY_PAUSE_MS = 25;
const ANSWER_MS = 8_000;

/** One message to send. All tries use the same key. */
interface Write {
  readonly session: string;
  readonly key: string;
  readonly content: string;
  readonly invokedAt: number;
  /** From the first answer that acknowledged the message. */
  acknowledged?: { readonly id: string; readonly sequence: number; readonly at: number };
}

/** All attempted writes and their results. */
export interface Ledger {
  readonly writes: readonly Write[];
  /** The number of tries by result. Network errors, timeouts, and 5xx answers are indeterminate. */
  readonly counts: { ok: number; failed: number; indeterminate: number };
  /**
   * Sends one message after another until `isOver`. Retries each with the same key until its result is known, even
   * after `isOver`. Calls `onAcknowledged` for each one.
   */
  writeUntil(isOver: () => boolean, session: string, send: Send, onAcknowledged?: Told): Promise<void>;
}

type Send = (write: Write) => Promise<Answer>;
type Told = (write: Write, acknowledged: NonNullable<Write['acknowledged']>) => Promise<void>;

export function createLedger(): Ledger {
  const writes: Write[] = [];
  const counts = { ok: 0, failed: 0, indeterminate: 0 };

  const tryOnce = async (write: Write, send: Send): Promise<Answer | undefined> => {
    const late = new AbortController();
    const timeout = pause(ANSWER_MS, undefined, { signal: late.signal, ref: false }).catch(() => undefined);
    const answer = await Promise.race([send(write).catch(() => undefined), timeout]);
    late.abort();
    if (answer?.status === 201) counts.ok += 1;
    else if (answer === undefined || answer.status >= 500 || [401, 429].includes(answer.status))
      counts.indeterminate += 1;
    else {
      counts.failed += 1;
      throw new Error(`refused: ${answer.status} ${answer.text}`);
    }
    return answer?.status === 201 ? answer : undefined;
  };

  return {
    writes,
    counts,
    async writeUntil(isOver, session, send, onAcknowledged) {
      while (!isOver()) {
        const key = randomUUID();
        const write: Write = { session, key, content: `content of ${key}`, invokedAt: performance.now() };
        writes.push(write);
        let answer = await tryOnce(write, send);
        while (answer === undefined) {
          await pause(RETRY_PAUSE_MS);
          answer = await tryOnce(write, send);
        }
        write.acknowledged = {
          id: String(field(answer.json, 'message_id')),
          sequence: Number(field(answer.json, 'sequence')),
          at: performance.now(),
        };
        await onAcknowledged?.(write, write.acknowledged);
      }
    },
  };
}

/**
 * Compares a session's log, as read by a participant from the start, with the acknowledged writes. Returns every
 * difference.
 */
export function findFaults(session: string, events: readonly unknown[], { writes }: Ledger): string[] {
  const faults: string[] = [];
  const contents = new Map<string, unknown[]>();
  const eventIds = new Set<unknown>();
  for (const [index, event] of events.entries()) {
    const sequence = field(event, 'sequence');
    if (sequence !== index + 1) faults.push(`number ${index + 1} of the log is ${sequence}`);
    eventIds.add(field(event, 'event_id'));
    if (field(event, 'type') !== 'session.message') continue;
    if (field(event, 'payload.sequence') !== sequence) faults.push(`message and envelope differ at ${sequence}`);
    const content = String(field(event, 'payload.content'));
    contents.set(content, [...(contents.get(content) ?? []), event]);
  }
  if (eventIds.size !== events.length) faults.push(`${events.length - eventIds.size} event ids are double`);

  const own = writes.filter((write) => write.session === session);
  for (const { content, acknowledged } of own) {
    const found = contents.get(content) ?? [];
    if (acknowledged === undefined) {
      if (found.length > 1) faults.push(`${content} stands there ${found.length} times`);
      continue;
    }
    const [event] = found;
    const isRight =
      field(event, 'payload.id') === acknowledged.id && field(event, 'sequence') === acknowledged.sequence;
    if (found.length !== 1 || !isRight)
      faults.push(`${content} was acknowledged and stands there ${found.length} times`);
  }
  const known = own.length;
  if (contents.size > known) faults.push(`${contents.size - known} messages were sent by nobody`);
  return [...faults, ...findOutOfOrder(own)];
}

/** Finds writes that were acknowledged before another began but come after it in the log. */
function findOutOfOrder(writes: readonly Write[]): string[] {
  const done = writes.flatMap(({ acknowledged }) => (acknowledged === undefined ? [] : [acknowledged]));
  const byAnswer = done.toSorted((one, other) => one.at - other.at);
  const byStart = writes.toSorted((one, other) => one.invokedAt - other.invokedAt);
  const faults: string[] = [];
  let next = 0;
  let highest = 0;
  for (const { invokedAt, acknowledged, content } of byStart) {
    for (let one = byAnswer[next]; one !== undefined && one.at < invokedAt; one = byAnswer[next]) {
      highest = Math.max(highest, one.sequence);
      next += 1;
    }
    if (acknowledged !== undefined && acknowledged.sequence <= highest) faults.push(`${content} overtook another`);
  }
  return faults;
}
