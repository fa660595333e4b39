import type { AgentActor } from '../../src/service/core/context.js';
import { replayEvents } from '../../src/service/messaging/events.js';
import { listSessions } from '../../src/service/messaging/list-sessions.js';
import { searchMessages } from '../../src/service/messaging/search-messages.js';
import { sendMessage } from '../../src/service/messaging/sessions.js';
import { costOf, type ReadCost } from './cost.js';
import { fillEvents, fillSessions, indexEverything } from './fill.js';
import { openPlace, type Place } from './place.js';

const RATIO_MAX = 1.3;
const ROUNDS = 16;
const CALLS_PER_ROUND = 10;
const WARM_UP_ROUNDS = 3;
const GROWING = { rounds: 2, callsPerRound: 1 };

export interface GrowthOptions {
  readonly database?: string;
  readonly many: number;
  readonly folder: string;
}

/** One kind of call, on the small side and on the large side. */
interface Measured {
  readonly title: string;
  readonly sides: readonly [Call, Call];
  /** Undefined for a call that grows by design: it gets fewer rounds and no check. */
  readonly atMost: number | undefined;
}
type Call = () => Promise<unknown>;

/** Fills the databases, measures, and prints a table. Returns 1 if a ratio is above its limit. */
export async function measureGrowth({ database, many, folder }: GrowthOptions): Promise<number> {
  const few = 1_000;
  const sides = [
    await fill('few', few, 100, folder, database),
    await fill('many', many, many, folder, database),
  ] as const;
  const readCost = await costOf(sides.map(({ place }) => place.context.database));
  const rows = listMeasured(sides);
  console.log(
    `\n| call | ${few.toLocaleString('en')} sessions (ms) | ${many.toLocaleString('en')} (ms) | ratio | limit |`,
  );
  console.log('|---|---|---|---|---|');
  let isWithin = true;
  for (const row of rows) {
    // The service does this every second.
    for (const { place } of sides) await indexEverything(place);
    const { costs, ratio } = await measure(row, readCost);
    if (row.atMost !== undefined && ratio > row.atMost) isWithin = false;
    console.log(
      `| ${row.title} | ${costs.map((cost) => cost.toFixed(3)).join(' | ')} | ${ratio.toFixed(2)} | ${row.atMost ?? ''} |`,
    );
  }
  for (const { place } of sides) await place.close();
  return isWithin ? 0 : 1;
}

interface Side {
  readonly place: Place;
  readonly carolsSession: string;
  readonly long: string;
  readonly events: number;
}

async function fill(
  name: string,
  sessions: number,
  events: number,
  folder: string,
  url: string | undefined,
): Promise<Side> {
  const started = performance.now();
  const place = await openPlace(name, folder, url);
  const carols = await fillSessions(place, sessions);
  const long = await fillEvents(place, events);
  await indexEverything(place);
  await settle(place);
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  console.error(`${sessions} sessions and a session of ${events} messages: ${seconds} s`);
  return { place, carolsSession: carols.at(-1) ?? '', long, events };
}

/** Does the upkeep that the database would have done on its own while this much data accumulated. */
async function settle({ context: { database } }: Place): Promise<void> {
  if ('aside' in database)
    await (database as { aside: { run(sql: string): Promise<number> } }).aside.run('VACUUM (ANALYZE)');
}

function listMeasured(sides: readonly [Side, Side]): Measured[] {
  const both = (title: string, call: (side: Side) => Call): Measured => ({
    title,
    sides: [call(sides[0]), call(sides[1])],
    atMost: RATIO_MAX,
  });
  const span = `one session of ${sides.map(({ events }) => events.toLocaleString('en')).join(' or ')} messages`;
  const alice = ({ place }: Side): AgentActor => place.alice;
  const carol = ({ place }: Side): AgentActor => place.carol;
  return [
    both('list, for an agent in all sessions', (side) => list(side.place, alice(side))),
    both('list, for an agent in 500 sessions', (side) => list(side.place, carol(side))),
    both('replay of a session', (side) => replay(side.place, carol(side), side.carolsSession, 0)),
    both('send to a session', (side) => send(side.place, carol(side), side.carolsSession)),
    both('search for a common word, by the agent in all sessions', (side) => search(side.place, alice(side), 'heron')),
    both('search for a common word, by the agent in 500', (side) => search(side.place, carol(side), 'heron')),
    both('search for a word that never occurs, by the agent in 500', (side) =>
      search(side.place, carol(side), 'nowhere'),
    ),
    {
      ...both('search for a word that never occurs, by the agent in all sessions', (side) =>
        search(side.place, alice(side), 'nowhere'),
      ),
      atMost: undefined,
    },
    both(`${span}: replay from the start`, (side) => replay(side.place, alice(side), side.long, 0)),
    both(`${span}: replay of the last 50`, (side) => replay(side.place, alice(side), side.long, side.events - 50)),
    both(`${span}: send`, (side) => send(side.place, alice(side), side.long)),
    both(`${span}: search in it`, (side) => search(side.place, alice(side), 'heron', side.long)),
  ];
}

const list = ({ context }: Place, actor: AgentActor): Call => {
  const query = { state: undefined, limit: 50, cursor: undefined };
  return () => context.database.read((view) => listSessions(context, actor, { query }, view));
};

const replay = ({ context }: Place, actor: AgentActor, session_id: string, after_sequence: number): Call => {
  const input = { path: { session_id }, query: { after_sequence, limit: 50 } };
  return () => context.database.read((view) => replayEvents(context, actor, input, view));
};

const send = ({ context }: Place, actor: AgentActor, session_id: string): Call => {
  const input = { path: { session_id }, body: { content: 'one more' } };
  return async () => {
    await context.database.write((transaction) => sendMessage(context, actor, input, transaction));
    // The service fills inboxes a moment later, for many messages at once.
    await context.inboxes.settle();
  };
};

const search = ({ context }: Place, actor: AgentActor, q: string, session_id?: string): Call => {
  const query = { q, limit: 20, session_id, counterpart: undefined };
  return () => context.database.read((view) => searchMessages(context, actor, { query }, view));
};

/** The sides take turns. Returns the medians of the milliseconds per call and of the ratios of neighboring runs. */
async function measure({ sides, atMost }: Measured, readCost: ReadCost): Promise<{ costs: number[]; ratio: number }> {
  const isBound = atMost !== undefined;
  const rounds = isBound ? WARM_UP_ROUNDS + ROUNDS : GROWING.rounds;
  const calls = isBound ? CALLS_PER_ROUND : GROWING.callsPerRound;
  const costs: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round += 1)
    for (const index of round % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)) {
      const before = await readCost();
      for (let call = 0; call < calls; call += 1) await sides[index]();
      const cost = ((await readCost()) - before) / calls;
      if (!isBound || round >= WARM_UP_ROUNDS) costs[index].push(cost);
    }
  return {
    costs: costs.map(medianOf),
    ratio: medianOf(costs[1].map((cost, index) => cost / (costs[0][index] as number))),
  };
}

function medianOf(values: readonly number[]): number {
  const sorted = [...values].sort((one, other) => one - other);
  const middle = sorted.length >> 1;
  const [low = 0, high = 0] = [sorted[sorted.length % 2 === 1 ? middle : middle - 1], sorted[middle]];
  return (low + high) / 2;
}
