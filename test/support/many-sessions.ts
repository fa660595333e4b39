import { join } from 'node:path';
import { expect } from 'vitest';

import { createHome, jsonLines, type Running, startServe } from '../acceptance/program.js';
import { createActor } from './actors.js';
import { field } from './json.js';
import { discover } from './oauth.js';
import { operatorOf } from './operator.js';
import { startSocketCutter } from './socket-cutter.js';

const WRITERS = 32;
const PATIENCE = { timeout: 600_000, interval: 20 };

/** The load while one tail watches. */
export interface Crowd {
  readonly sessions: number;
  readonly messagesEach: number;
  /** How often the tail's connection breaks. */
  readonly cuts: number;
}

/** The events that the agent's tail printed for each session, in order. */
export interface Printed {
  readonly sessions: readonly string[];
  readonly texts: ReadonlyMap<string, readonly string[]>;
  readonly sequences: ReadonlyMap<string, readonly number[]>;
  readonly eventIds: ReadonlySet<string>;
  readonly lines: number;
  readonly cuts: number;
}

/** Runs `work` for each item, at most `WRITERS` at a time. */
async function forAll<Item>(items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  let next = 0;
  const run = async (): Promise<void> => {
    for (let at = next++; at < items.length; at = next++) await work(items[at] as Item);
  };
  await Promise.all(Array.from({ length: WRITERS }, run));
}

const linesOf = (tails: readonly Running[]): number =>
  tails.reduce((count, tail) => count + tail.stdout().split('\n').length - 1, 0);

/**
 * Runs `asp tail` of every session with a cursor file. Sessions begin and grow while its connection breaks. Halfway,
 * the tail stops, and the next one prints what was sent in the meantime.
 */
export async function tailCrowd({ sessions: count, messagesEach, cuts }: Crowd): Promise<Printed> {
  const home = createHome();
  const cutter = await startSocketCutter();
  const service = await startServe(home, ['--limits', 'off', '--public-url', `http://127.0.0.1:${cutter.port}`]);
  try {
    cutter.targetPort = Number((await service.running.until('stderr', /Listening on \S+:(\d+)\./))[1]);
    const actor = await createActor(await discover(service.url), operatorOf(home), 'crowd');
    const { clientId, clientSecret } = actor.credentials;
    const environment = { ASP_PROFILE: service.url, ASP_CLIENT_ID: clientId, ASP_CLIENT_SECRET: clientSecret };
    const tails: Running[] = [];
    const start = async (): Promise<Running> => {
      const ready = `ready-${tails.length}`;
      const words = ['tail', '--cursor-file', join(home.directory, 'cursors.json'), '--ready-file', ready];
      const tail = home.start(words, { environment });
      tails.push(tail);
      await expect.poll(() => home.exists(ready), PATIENCE).toBe(true);
      return tail;
    };
    let written = 0;
    const arePrinted = () => expect.poll(() => linesOf(tails), PATIENCE).toBeGreaterThanOrEqual(written);

    const first = await start();
    const sessions: string[] = [];
    await forAll(Array.from({ length: count }), async () => void sessions.push(await actor.mustCreate()));
    const say = async (session: string, text: string): Promise<void> => {
      await actor.mustSend(session, text);
      written += 1;
    };
    let cutsBegun = 0;
    const every = Math.floor((count * messagesEach) / (cuts + 2));
    const sayAndCut = async (session: string, text: string): Promise<void> => {
      await say(session, text);
      if (written < (cutsBegun + 1) * every) return;
      cutsBegun += 1;
      const how = cutsBegun % 2 === 0 ? 'end' : 'reset';
      await expect.poll(() => cutter.carrying > 0 && cutter.cutAll(how) > 0, PATIENCE).toBe(true);
    };
    for (let round = 1; round <= messagesEach; round += 1) {
      const isStopped = round === Math.ceil(messagesEach / 2);
      if (isStopped) {
        await arePrinted();
        first.kill('SIGTERM');
        await first.ended;
        for (const session of sessions.slice(0, count / 2)) await say(session, `${round} of ${session}`);
        await start();
      }
      await forAll(isStopped ? sessions.slice(count / 2) : sessions, (session) =>
        sayAndCut(session, `${round} of ${session}`),
      );
    }
    await arePrinted();
    for (const tail of tails) tail.kill('SIGTERM');
    for (const tail of tails) await tail.ended;
    return { sessions, cuts: cutter.cuts, ...collect(tails) };
  } finally {
    await service.stop();
    await cutter.stop();
    await home.dispose();
  }
}

function collect(tails: readonly Running[]): Pick<Printed, 'texts' | 'sequences' | 'eventIds' | 'lines'> {
  const texts = new Map<string, string[]>();
  const sequences = new Map<string, number[]>();
  const events = tails.flatMap((tail) => jsonLines(tail.stdout()));
  for (const event of events) {
    const session = String(event['session_id']);
    texts.set(session, [...(texts.get(session) ?? []), String(field(event, 'payload.content'))]);
    sequences.set(session, [...(sequences.get(session) ?? []), Number(event['sequence'])]);
  }
  return {
    texts,
    sequences,
    eventIds: new Set(events.map((event) => String(event['event_id']))),
    lines: events.length,
  };
}

/** Expects each event once, and each session in order. */
export function expectEachOnce(printed: Printed, { sessions, messagesEach, cuts }: Crowd): void {
  const rounds = Array.from({ length: messagesEach }, (_, index) => index + 1);
  expect(printed.sessions).toHaveLength(sessions);
  for (const session of printed.sessions) {
    expect(printed.texts.get(session)).toEqual(rounds.map((round) => `${round} of ${session}`));
    expect(printed.sequences.get(session)).toEqual(rounds);
  }
  expect(printed.eventIds.size).toBe(printed.lines);
  expect(printed.lines).toBe(sessions * messagesEach);
  expect(printed.cuts).toBeGreaterThanOrEqual(cuts);
}
