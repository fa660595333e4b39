import { randomBytes } from 'node:crypto';

import type { Epoch, Query } from '../core/database.js';

/**
 * A stretch of the data's history that no restore has interrupted. A new one begins whenever the data is restored: the
 * numbers of lost events are then used again, for other events.
 */
interface EpochRow {
  readonly ordinal: number;
  readonly id: string;
  /** The position of the last event of the previous epoch. */
  readonly after_position: number;
  /** Where the data was when it began; anywhere else, it is a copy. */
  readonly origin: string;
  readonly began_at: number;
}

/** More than a client needs to know: an id, and the position up to which the history was never cut. */
const TOKEN = /^([0-9a-f]{20})(?:\.([0-9a-z]{1,11}))?$/;

function listEpochs(query: Query): Promise<EpochRow[]> {
  return query.all<EpochRow>('SELECT * FROM epoch ORDER BY ordinal');
}

/** The lowest position at which a restore has ever cut this history; infinite if there was none. */
function firstCut(rows: readonly EpochRow[]): number {
  return Math.min(...rows.filter(({ ordinal }) => ordinal > 0).map((row) => row.after_position));
}

function toEpoch(rows: readonly EpochRow[], { ordinal, id, began_at: beganAt }: EpochRow): Epoch {
  const cut = firstCut(rows);
  return { token: Number.isFinite(cut) ? `${id}.${cut.toString(36)}` : id, restoredAt: ordinal === 0 ? 0 : beganAt };
}

/** Whether the data is where its epoch began. */
export async function isAtOrigin(query: Query, origin: string): Promise<boolean> {
  const row = await query.get<{ origin: string }>('SELECT origin FROM epoch ORDER BY ordinal DESC LIMIT 1');
  return row?.origin === origin;
}

/** The latest epoch. */
export async function readEpoch(query: Query): Promise<Epoch> {
  const rows = await listEpochs(query);
  const last = rows.at(-1);
  if (last === undefined) throw new Error('The data has no epoch.');
  return toEpoch(rows, last);
}

/** The epoch of data at `origin`; a new one begins if they were elsewhere before. */
export async function openEpoch(query: Query, origin: string, now: number): Promise<Epoch> {
  const rows = await listEpochs(query);
  const last = rows.at(-1);
  return last?.origin === origin ? toEpoch(rows, last) : beginEpoch(query, origin, now);
}

/** Begins an epoch. The first one of new data cuts nothing. */
export async function beginEpoch(query: Query, origin: string, now: number): Promise<Epoch> {
  const id = randomBytes(10).toString('hex');
  await query.run(
    `INSERT INTO epoch (ordinal, id, after_position, origin, began_at)
     SELECT (SELECT COUNT(*) FROM epoch), $1, (SELECT COALESCE(MAX(position), 0) FROM event), $2, $3`,
    id,
    origin,
    now,
  );
  const rows = await listEpochs(query);
  const row = rows.find((one) => one.id === id);
  if (row === undefined) throw new Error('The epoch that was just begun is missing.');
  return toEpoch(rows, row);
}

/**
 * The position up to which the history of the data matches the one that a client with this epoch has read. Undefined:
 * all of it. For an epoch that this data has never been in, only the part that neither history has ever cut is
 * certain.
 */
export async function findCommonPosition(query: Query, token: string): Promise<number | undefined> {
  const [, id, cut = ''] = TOKEN.exec(token) ?? [];
  const rows = await listEpochs(query);
  const known = rows.findIndex((row) => row.id === id);
  if (known >= 0) {
    const cuts = rows.slice(known + 1).map((row) => row.after_position);
    return cuts.length === 0 ? undefined : Math.min(...cuts);
  }
  const common = Math.min(firstCut(rows), cut === '' ? Number.POSITIVE_INFINITY : Number.parseInt(cut, 36));
  return Number.isFinite(common) ? common : 0;
}
