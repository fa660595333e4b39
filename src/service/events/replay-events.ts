import type { PathOf, QueryOf } from '../../wire/endpoint.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import type { Query } from '../store/database.js';
import { findCommonPosition } from '../store/epochs.js';
import { findSequenceAt } from '../store/event-rows.js';
import { findParticipation, type ParticipationRow } from '../store/participant-rows.js';
import {
  envelopeText,
  findLastVisible,
  PAGE_MAX_CHARACTERS,
  readVisibleRows,
  type VisibleRows,
} from './read-events.js';
import { ReplyText } from './reply-text.js';

/** What is read at once; a longer page is read on as its reader takes it, so that one that does not costs no memory. */
const PIECE_MAX_CHARACTERS = 256 * 1024;

interface Replay {
  readonly sessionId: string;
  readonly agentId: string;
}

/** The cursor names an event that the caller has just seen, so that it tells nothing about those it may not see. */
export async function replayEvents(
  context: Pick<ServiceContext, 'database'>,
  actor: Pick<AgentActor, 'agentId'>,
  input: { path: PathOf<'replayEvents'>; query: QueryOf<'replayEvents'> },
  query: Query,
): Promise<ReplyText> {
  const replay = { sessionId: input.path.session_id, agentId: actor.agentId };
  const { after_sequence: asked, limit, epoch } = input.query;
  const participation = await findParticipation(query, replay.sessionId, replay.agentId);
  if (participation === undefined) throw new ServiceError('NOT_FOUND');
  const after = await findStart(query, participation, asked, epoch);
  const first = await readVisibleRows(query, participation, after, limit, PIECE_MAX_CHARACTERS);
  const head = {
    epoch: context.database.epoch().token,
    last_sequence: await findLastVisible(query, participation),
    ...(after < asked && { resumed_after: after }),
  };
  const text = `${JSON.stringify(head).slice(0, -1)},"events":[${first.events.map(envelopeText).join()}`;
  if (!first.hasMore || first.events.length === limit) return new ReplyText(text + endOf(first, after));
  return new ReplyText(text, readOn(context, replay, first, limit));
}

/**
 * Where the events begin. A cursor of an epoch that a restore has cut may name events that are gone, or others that have got
 * their numbers since: then they begin after the last event that both histories have.
 */
async function findStart(
  query: Query,
  participation: ParticipationRow,
  after: number,
  epoch: string | undefined,
): Promise<number> {
  const common = epoch === undefined ? undefined : await findCommonPosition(query, epoch);
  if (common === undefined) return after;
  const kept = await findSequenceAt(query, participation.session_id, common);
  return after <= kept ? after : findLastVisible(query, participation, kept);
}

/** By the participant's status at this moment; undefined: it has none. */
async function readPiece(
  query: Query,
  { sessionId, agentId }: Replay,
  after: number,
  limit: number,
): Promise<VisibleRows | undefined> {
  const participation = await findParticipation(query, sessionId, agentId);
  return participation && readVisibleRows(query, participation, after, limit, PIECE_MAX_CHARACTERS);
}

/** The events of a page after its first piece, and its end. A page ends before its limit where its events are large. */
async function* readOn(
  { database }: Pick<ServiceContext, 'database'>,
  replay: Replay,
  first: VisibleRows,
  limit: number,
): AsyncGenerator<string> {
  let piece: VisibleRows | undefined = first;
  let after = first.events.at(-1)?.sequence ?? 0;
  let count = first.events.length;
  let characters = charactersIn(first);
  while (piece?.hasMore === true && count < limit && characters < PAGE_MAX_CHARACTERS) {
    piece = await database.read((query) => readPiece(query, replay, after, limit - count));
    if (piece === undefined || piece.events.length === 0) break;
    yield `,${piece.events.map(envelopeText).join()}`;
    after = piece.events.at(-1)?.sequence ?? after;
    count += piece.events.length;
    characters += charactersIn(piece);
  }
  yield endOf(piece, after);
}

function charactersIn({ events }: VisibleRows): number {
  return events.reduce((sum, event) => sum + event.payload.length, 0);
}

function endOf(piece: VisibleRows | undefined, after: number): string {
  const cursor = piece?.hasMore === true ? String(piece.events.at(-1)?.sequence ?? after) : null;
  return `],"next_cursor":${JSON.stringify(cursor)}}`;
}
