import { type Client, RequestError } from '../client/client.js';
import { wait, within } from '../kit/clock.js';
import { TAKEN_PER_CALL_MAX } from '../wire/limit.js';
import type { AgentContext } from './persist.js';

/** Reports share the agent's rate limit with everything else it does: at most two a second. */
const PAUSE_MS = 500;
/** The end of a command does not wait longer for its last reports. */
const SETTLE_MS = 5_000;
/** A late report is dropped: the sender learns less, but nothing false. */
const WAITING_MAX = 10_000;

/** After this many unknown sessions in a row, the service seems not to know the reports at all. */
const UNKNOWN_MAX = 10;

/** Tells senders that their messages were handed to a model, a command or a reader (wire: Delivery). */
export interface TakenReports {
  /** Records a message as taken; the report is sent in the background. */
  note(sessionId: string, sequence: number): void;
  /** Resolves when everything noted is reported, or after a few seconds. */
  settle(): Promise<void>;
}

/**
 * Reports are optional: a failed one is dropped, and if the service does not support them, or the credential may not
 * write, no more are sent.
 */
export function createTakenReports(context: AgentContext, open: () => Promise<Client>): TakenReports {
  const { clock, output } = context;
  const waiting = new Map<string, Set<number>>();
  const hurry = new AbortController();
  let count = 0;
  let isOff = false;
  let unknown = 0;
  let running: Promise<void> | undefined;

  const next = (): readonly [string, number[]] | undefined => {
    const [first] = waiting;
    if (first === undefined) return undefined;
    const [sessionId, noted] = first;
    const sequences = [...noted].slice(0, TAKEN_PER_CALL_MAX);
    for (const sequence of sequences) noted.delete(sequence);
    if (noted.size === 0) waiting.delete(sessionId);
    count -= sequences.length;
    return [sessionId, sequences];
  };
  const report = async (sessionId: string, sequences: number[]): Promise<void> => {
    try {
      const client = await open();
      await client.call('reportTaken', { path: { session_id: sessionId }, body: { sequences } });
      unknown = 0;
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      // A service without these reports may answer as for a session that this agent has left.
      unknown += error.code === 'NOT_FOUND' ? 1 : 0;
      isOff = !error.isRetryable && (error.code !== 'NOT_FOUND' || unknown >= UNKNOWN_MAX);
      await output.detail(`${sessionId}: could not report what was taken: ${error.code}`);
    }
  };
  const run = async (): Promise<void> => {
    for (let batch = next(); batch !== undefined && !isOff; batch = next()) {
      await report(...batch);
      if (waiting.size > 0 && !hurry.signal.aborted) await wait(clock, PAUSE_MS, hurry.signal).catch(() => {});
    }
  };
  return {
    note(sessionId, sequence) {
      if (isOff || count >= WAITING_MAX) return;
      const noted = waiting.get(sessionId) ?? new Set();
      if (!noted.has(sequence)) count += 1;
      waiting.set(sessionId, noted.add(sequence));
      running ??= run()
        .catch((error: unknown) => output.detail(String(error)))
        .finally(() => {
          running = undefined;
        });
    },
    async settle() {
      hurry.abort();
      if (running !== undefined) await within(clock, SETTLE_MS, running, () => {});
    },
  };
}
