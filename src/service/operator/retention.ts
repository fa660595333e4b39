import type { OperatorRetention } from '../../wire/schemas/operator.js';
import type { ServiceContext } from '../core/context.js';
import { ServiceError } from '../core/errors.js';
import { deleteOldSessions, isDeletionDue, nothingDeleted } from '../messaging/retention.js';
import { countOldSessions } from '../store/operator.js';
import { actAsOperator } from './actions.js';

/** A run ends after this long, so that it is over before another process can begin one. The rest is due next time. */
const RUN_MAX_MS = 60_000;

/**
 * Deletes what is older than the operator wants to keep, and what earlier deletions have left, for a while at most, and
 * says so in the log of actions.
 */
export async function enforceRetention(
  context: Pick<ServiceContext, 'clock' | 'database' | 'files' | 'ids' | 'log' | 'meter'>,
  ageMs: number | undefined,
  isStopping: () => boolean,
): Promise<void> {
  const { clock, meter } = context;
  if (!(await isDeletionDue(context, ageMs))) return;
  const endsAt = clock.monotonic() + RUN_MAX_MS;
  const isOver = (): boolean => isStopping() || clock.monotonic() >= endsAt;
  const changes = nothingDeleted();
  await actAsOperator(context, {}, { operation: 'deleteOldSessions', target: '', changes }, async () => {
    try {
      await deleteOldSessions(context, ageMs, { deleted: changes, isOver });
    } finally {
      meter.deleted(changes);
    }
  });
}

const AGE = /^\d{1,15}$/;

/** What a run would delete now; `age` is a number of milliseconds, or `configured`. */
export async function readRetention(context: ServiceContext, age: string): Promise<OperatorRetention> {
  const { retentionMs = null } = context.settings;
  if (age !== 'configured' && !AGE.test(age)) throw new ServiceError('VALIDATION_ERROR', 'The age is not a number.');
  const ageMs = age === 'configured' ? retentionMs : Number(age);
  const due = ageMs === null ? undefined : context.clock.now() - ageMs;
  // No session is as old as this.
  const counted = await context.database.read((query) => countOldSessions(query, due ?? -1));
  return { retention_ms: retentionMs, age_ms: ageMs, ...counted };
}
