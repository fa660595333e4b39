import { randomUUID } from 'node:crypto';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { actorIn } from '../support/operator.js';
import { type SocketCutter, startSocketCutter } from '../support/socket-cutter.js';
import { createHome, type Home, json, jsonLines, type ServiceProcess, startServe } from './program.js';

const MESSAGES = 2000;
const CUTS = 50;
const BATCH = MESSAGES / CUTS;
const ROUNDS = 3;
const PATIENCE = { timeout: 60_000, interval: 5 };

interface Envelope {
  type: string;
  event_id: string;
  sequence: number;
  payload: { content?: string };
}

describe('asp tail › each event once, in order, whatever happens to the connection', () => {
  let home: Home;
  let cutter: SocketCutter;
  let service: ServiceProcess;
  let sessionId = '';
  let token = '';

  const serve = async (): Promise<ServiceProcess> => {
    const started = await startServe(home, [
      '--seed',
      'demo.you',
      '--limits',
      'off',
      '--public-url',
      `http://127.0.0.1:${cutter.port}`,
    ]);
    cutter.targetPort = Number((await started.running.until('stderr', /Listening on \S+:(\d+)\./))[1]);
    return started;
  };

  /** Sends the messages with these numbers, in order, past the cutter. */
  const send = async (from: number, to: number): Promise<void> => {
    for (let number = from + 1; number <= to; number += 1) {
      const answer = await fetch(`http://127.0.0.1:${cutter.targetPort}/v1/sessions/${sessionId}/messages`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${token}`,
          'content-type': 'application/json',
          'idempotency-key': randomUUID(),
        },
        body: JSON.stringify({ content: `message ${number}` }),
      });
      expect(answer.status).toBe(201);
    }
  };

  beforeAll(async () => {
    home = createHome();
    cutter = await startSocketCutter();
    service = await serve();
    expect(await home.run(['login', '@demo.you', '--yes'])).toMatchObject({ status: 0 });
    sessionId = (await home.run(['session', 'create', '--topic', 'cuts'])).stdout.trim();
    expect(sessionId).toMatch(/^sess_/);
    token = (await home.run(['auth', 'token'])).stdout.trim();
  });
  afterAll(async () => {
    await service.stop();
    await cutter.stop();
    await home.dispose();
  });

  it(`${CUTS} cuts during ${MESSAGES} messages, and a restart of the service`, { timeout: 180_000 }, async () => {
    const tail = home.start([
      'tail',
      sessionId,
      '-n',
      '1000',
      '-c',
      String(MESSAGES),
      '--type',
      'session.message',
      '--ready-file',
      `${home.directory}/ready`,
    ]);
    await expect.poll(() => tail.stdout() !== '' || home.exists('ready')).toBeTruthy();
    for (let cut = 0; cut < CUTS; cut += 1) {
      await send(cut * BATCH, cut * BATCH + BATCH / 2);
      const how = cut % 2 === 0 ? 'reset' : 'end';
      // A connection that delivers nothing counts as failed, and consecutive failures lengthen the pause before the
      // next one.
      const first = `"message ${cut * BATCH + 1}"`;
      await expect.poll(() => cutter.carrying > 0 && tail.stdout().includes(first), PATIENCE).toBe(true);
      expect(cutter.cutAll(how)).toBeGreaterThan(0);
      await send(cut * BATCH + BATCH / 2, (cut + 1) * BATCH);
      if (cut !== CUTS / 2) continue;
      expect(await service.stop()).toMatchObject({ status: 0 });
      service = await serve();
    }
    const ended = await tail.ended;
    expect(ended).toMatchObject({ status: 0 });
    const events = jsonLines<Envelope>(ended.stdout);
    expect(events.map((event) => event.payload.content)).toEqual(
      Array.from({ length: MESSAGES }, (_, index) => `message ${index + 1}`),
    );
    expect(new Set(events.map((event) => event.event_id)).size).toBe(MESSAGES);
    expect(events.map((event) => event.sequence)).toEqual(
      [...events.map((event) => event.sequence)].sort((a, b) => a - b),
    );
    expect(cutter.cuts).toBeGreaterThanOrEqual(CUTS);
  });

  it('--pretty: a person sees when an outage begins and ends; without it nothing is printed', async () => {
    const watching = home.start(['tail', sessionId, '-n', '1', '--pretty']);
    const piped = home.start(['tail', sessionId, '-n', '1']);
    for (const tail of [watching, piped]) await tail.until('stdout', /\n/);
    await service.stop();
    await watching.until('stderr', /^Cannot connect to the service \(.+\)\. Retrying until it works\.$/m);
    service = await serve();
    await watching.until('stderr', /^Connected again after \d+ s\.$/m);
    for (const tail of [watching, piped]) tail.kill('SIGTERM');
    expect((await watching.ended).stderr.split('\n')).toHaveLength(3);
    expect((await piped.ended).stderr).toBe('');
  });

  it('a tail that starts while the service is down reports it once, and prints events when it is back', async () => {
    await service.stop();
    const words = ['tail', sessionId, '-n', '1', '-p', service.url];
    const early = home.start(words);
    await early.until('stderr', /^Cannot connect to the service \(.+\)\. Retrying until it works\.$/m);
    service = await serve();
    await early.until('stdout', /\n/);
    early.kill('SIGTERM');
    expect((await early.ended).stderr.split('\n').filter((line) => line.startsWith('Cannot connect'))).toHaveLength(1);
  });

  it('the service has exactly the messages that were sent', async () => {
    const session = json<{ id: string }>((await home.run(['session', 'show', sessionId, '--json'])).stdout);
    expect(session.id).toBe(sessionId);
    const events = jsonLines<Envelope>((await home.run(['session', 'events', sessionId, '--after', '0'])).stdout);
    expect(events.map((event) => event.sequence)).toEqual(Array.from({ length: MESSAGES }, (_, index) => index + 1));
  });
});

describe('asp tail --for-agent › the line of each message once, whatever happens to the connection and the service', () => {
  it('after connections that were cut and services that were killed', async () => {
    const home = createHome();
    const words = ['--seed', 'me.bot,me.boss', '--limits', 'off', '--demo'];
    let service = await startServe(home, words);
    const { url } = service;
    const [bot, boss] = await Promise.all([actorIn(home, url, '@me.bot'), actorIn(home, url, '@me.boss')]);
    expect(await home.run(['login', '@me.bot', '--yes'])).toMatchObject({ status: 0 });
    const sessions: string[] = [];
    for (let at = 0; at < 3 * ROUNDS; at += 1) {
      const id = await boss.mustCreate({ invite: ['@me.bot'] });
      await bot.mustJoin(id);
      sessions.push(id);
    }
    const tail = home.start(['tail', '--for-agent', '--as', '@me.bot']);
    await tail.until('stdout', /New messages from other agents follow/);
    let sent = 0;
    const send = async (): Promise<string> => {
      sent += 1;
      await boss.mustSend(sessions[sent - 1] ?? '', `text ${sent}`);
      return `"text ${sent}"`;
    };
    for (let round = 0; round < ROUNDS; round += 1) {
      await tail.until('stdout', new RegExp(await send()));
      const dropped = await home.run(['serve', 'trigger', 'drop', '--to', '@me.bot', '--json']);
      expect(json(dropped.stdout)).toMatchObject({ count: 1 });
      const missed = await send();
      await tail.until('stdout', new RegExp(missed));
      // Stored, but perhaps not yet on its way.
      const stored = await send();
      service.running.kill('SIGKILL');
      await service.running.ended;
      service = await startServe(home, words, url);
      await tail.until('stdout', new RegExp(stored));
    }
    tail.kill('SIGINT');
    const { stdout } = await tail.ended;
    const [, ...lines] = stdout.split('\n').slice(0, -1);
    const texts = lines.map((line) => /"text \d+"$/.exec(line)?.[0] ?? line);
    expect(texts).toEqual(Array.from({ length: sent }, (_, at) => `"text ${at + 1}"`));
    await service.stop();
    await home.dispose();
  });
});
