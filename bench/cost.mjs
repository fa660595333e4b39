/**
 * Measures what one request may cost, and what hostile requests cost everyone else.
 *   node bench/cost.mjs bodies [rounds]      the worst bodies, compared with 256 KiB of plain text
 *   node bench/cost.mjs hostile [seconds]    four connections that send the worst of them, limits on: /health and a bystander
 *   node bench/cost.mjs unread [connections]  replays that no one reads, limits on: the memory of the service
 *   node bench/cost.mjs slow [connections]    bodies that never end, limits on: the memory of the service
 *   node bench/cost.mjs plain <asp.js> [rounds]   a plain POST, compared with another build
 * Needs a built program and /proc (Linux). Exits with 1 if a ratio is above its limit.
 */
import { randomUUID } from 'node:crypto';
import { Agent } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

import { BODIES } from './cost/bodies.mjs';
import { OWN_PROGRAM, startService } from './cost/service.mjs';
import { medianOf } from './cpu.mjs';

const [, , mode = 'bodies', ...rest] = process.argv;

async function prepared(options, program) {
  const service = await startService(options, program);
  const token = await service.tokenOf('alice.red');
  const created = await service.call('POST', '/v1/sessions', { token, body: {} });
  return { ...service, token, sessionId: JSON.parse(created.text).session_id };
}

const addressOf = (sessionId, { path = `/v1/sessions/${sessionId}/messages`, method = 'POST' }) => [method, path];

/**
 * Measures the thread's time for one of each body, including indexing. Returns medians of `rounds` in which the bodies
 * take turns.
 */
async function measureBodies(rounds) {
  const service = await prepared(['--limits', 'off']);
  const times = new Map(Object.keys(BODIES).map((name) => [name, []]));
  const statuses = new Map();
  for (let round = 0; round < rounds + 1; round += 1)
    for (const [name, row] of Object.entries(BODIES)) {
      await pause(20);
      const before = service.threadMs();
      const [method, path] = addressOf(service.sessionId, row);
      const { status } = await service.call(method, path, { token: service.token, body: row.body });
      const took = service.threadMs() - before;
      statuses.set(name, status);
      if (round > 0) times.get(name).push(took);
      // The service indexes a message within about a second. That must not count toward the next request.
      if (status === 201) await pause(1_300);
    }
  await service.stop();
  const base = medianOf(times.get('plain text'));
  console.log('| body | status | thread (ms) | of plain text |');
  console.log('|---|---|---|---|');
  for (const [name, found] of times) {
    const ms = medianOf(found);
    console.log(`| ${name} | ${statuses.get(name)} | ${ms.toFixed(1)} | ${(ms / base).toFixed(1)} |`);
  }
  return true;
}

const share = (sorted, part) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;

/** Measures latencies of /health and of a bystander's POST for `seconds`. */
async function watch(service, bystander, seconds) {
  const line = new Agent({ keepAlive: true, maxSockets: 1 });
  const own = new Agent({ keepAlive: true, maxSockets: 1 });
  const health = [];
  const posts = [];
  const until = performance.now() + seconds * 1000;
  const ask = async () => {
    while (performance.now() < until) {
      health.push((await service.call('GET', '/health', { agent: line })).ms);
      await pause(5);
    }
  };
  const post = async () => {
    while (performance.now() < until) {
      const path = `/v1/sessions/${bystander.sessionId}/messages`;
      const answer = await service.call('POST', path, { token: bystander.token, body: { content: 'hi' }, agent: own });
      if (answer.status === 201) posts.push(answer.ms);
      await pause(1_050);
    }
  };
  await Promise.all([ask(), post()]);
  line.destroy();
  own.destroy();
  return { health: health.sort((a, b) => a - b), posts: posts.sort((a, b) => a - b) };
}

async function measureHostile(seconds) {
  const service = await prepared([]);
  const token = await service.tokenOf('bob.blue');
  const created = await service.call('POST', '/v1/sessions', { token, body: {} });
  const bystander = { token, sessionId: JSON.parse(created.text).session_id };
  const quiet = await watch(service, bystander, seconds);
  let isOver = false;
  let sent = 0;
  const statuses = {};
  const rows = Object.values(BODIES);
  const attack = async (at) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    while (!isOver) {
      const row = rows[at % rows.length];
      at += 1;
      const [method, path] = addressOf(service.sessionId, row);
      const answer = await service
        .call(method, path, { token: service.token, body: row.body, agent })
        .catch(() => ({ status: 'cut' }));
      statuses[answer.status] = (statuses[answer.status] ?? 0) + 1;
      sent += 1;
    }
    agent.destroy();
  };
  const before = service.threadMs();
  const attacks = [0, 4, 9, 14].map(attack);
  const loud = await watch(service, bystander, seconds);
  isOver = true;
  await Promise.all(attacks);
  const busy = (service.threadMs() - before) / (seconds * 10);
  await service.stop();
  const [healthBefore, healthNow] = [share(quiet.health, 0.99), share(loud.health, 0.99)];
  const [postBefore, postNow] = [share(quiet.posts, 0.5), share(loud.posts, 0.5)];
  console.log(
    `${sent} hostile requests in ${seconds} s: ${JSON.stringify(statuses)}; the thread was busy for ${busy.toFixed(0)} %`,
  );
  console.log('| | quiet (ms) | under attack (ms) | ratio |');
  console.log('|---|---|---|---|');
  const line = (name, one, other) =>
    console.log(`| ${name} | ${one.toFixed(1)} | ${other.toFixed(1)} | ${(other / one).toFixed(2)} |`);
  line('/health p50', share(quiet.health, 0.5), share(loud.health, 0.5));
  line('/health p99', healthBefore, healthNow);
  line('a bystander’s POST p50', postBefore, postNow);
  line('a bystander’s POST p90', share(quiet.posts, 0.9), share(loud.posts, 0.9));
  return healthNow <= 50 && postNow <= 2 * postBefore;
}

const MESSAGE_BYTES = 240_000;
const REPLAYED_MESSAGES = 18;
const SETTLE_MS = 10_000;
const HOLD_MS = 60_000;
const SAMPLE_MS = 250;
/** In addition to what the idle service uses. */
const HELD_MAX_MIB = 64;

/** What each connection writes, only once. */
const HELD = {
  unread: ({ sessionId, token, host }) =>
    `GET /v1/sessions/${sessionId}/events?limit=1000 HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${token}\r\n\r\n`,
  slow: ({ sessionId, token, host }) => {
    const head = [
      `POST /v1/sessions/${sessionId}/messages HTTP/1.1`,
      `host: ${host}`,
      `authorization: Bearer ${token}`,
      `idempotency-key: ${randomUUID()}`,
      'content-type: application/json',
      `content-length: ${255 * 1024}`,
    ];
    return `${head.join('\r\n')}\r\n\r\n{"content":"${'x'.repeat(254 * 1024)}`;
  },
};

/**
 * Measures the memory of a service before, while, and after one account holds many connections that neither read nor
 * make progress.
 */
async function measureHeld(kind, connections) {
  const service = await prepared([]);
  const { sessionId, token, baseUrl, call, memoryMiB } = service;
  // The slow connections need no messages, but a service that has never answered is smaller than one in use.
  for (let count = 0; count < REPLAYED_MESSAGES; count += 1)
    await call('POST', `/v1/sessions/${sessionId}/messages`, { token, body: { content: 'x'.repeat(MESSAGE_BYTES) } });
  const sample = async (forMs) => {
    const found = [];
    for (const until = performance.now() + forMs; performance.now() < until; await pause(SAMPLE_MS))
      found.push(memoryMiB());
    return found;
  };
  const idle = medianOf(await sample(SETTLE_MS));
  const { hostname, port, host } = new URL(baseUrl);
  let open = 0;
  const sockets = Array.from({ length: connections }, () => {
    const socket = connect({ host: hostname, port: Number(port) }, () => {
      open += 1;
      socket.write(HELD[kind]({ sessionId, token, host }));
    });
    socket.on('error', () => {});
    socket.on('close', () => {
      open -= 1;
    });
    // A paused socket does not notice that it has ended. The slow ones read their answers.
    return kind === 'unread' ? socket.pause() : socket.resume();
  });
  const held = await sample(HOLD_MS);
  const left = kind === 'unread' ? 'not counted' : open;
  for (const socket of sockets) socket.destroy();
  const after = medianOf((await sample(SETTLE_MS)).slice(-10));
  const { ms } = await call('GET', '/health');
  await service.stop();
  const peak = Math.max(...held);
  console.log(
    `${connections} connections for ${HOLD_MS / 1000} s; open at the end: ${left}; then /health in ${ms.toFixed(1)} ms`,
  );
  console.log('| memory of the service | MiB | more than idle |');
  console.log('|---|---|---|');
  for (const [name, value] of Object.entries({ idle, peak, 'at the end': held.at(-1), afterwards: after }))
    console.log(`| ${name} | ${value.toFixed(0)} | ${(value - idle).toFixed(0)} |`);
  return peak - idle <= HELD_MAX_MIB;
}

/** Measures the thread's time for a short message, while this build and another one take turns. */
async function measurePlain(other, rounds) {
  const builds = { this: await prepared(['--limits', 'off']), other: await prepared(['--limits', 'off'], other) };
  const ratios = [];
  const times = { this: [], other: [] };
  const POSTS = 200;
  for (let round = 0; round < rounds + 1; round += 1) {
    const took = {};
    for (const name of round % 2 === 0 ? ['this', 'other'] : ['other', 'this']) {
      const { call, token, sessionId, threadMs } = builds[name];
      const before = threadMs();
      for (let index = 0; index < POSTS; index += 1)
        await call('POST', `/v1/sessions/${sessionId}/messages`, { token, body: { content: 'hi' } });
      took[name] = (threadMs() - before) / POSTS;
    }
    if (round === 0) continue;
    for (const name of ['this', 'other']) times[name].push(took[name]);
    ratios.push(took.this / took.other);
  }
  for (const service of Object.values(builds)) await service.stop();
  const ratio = medianOf(ratios);
  console.log('| a plain POST | the other (ms) | this (ms) | ratio |');
  console.log('|---|---|---|---|');
  console.log(`| | ${medianOf(times.other).toFixed(3)} | ${medianOf(times.this).toFixed(3)} | ${ratio.toFixed(2)} |`);
  return ratio <= 1.1;
}

const MODE = {
  bodies: (rounds = 5) => measureBodies(Number(rounds)),
  hostile: (seconds = 60) => measureHostile(Number(seconds)),
  unread: (connections = 300) => measureHeld('unread', Number(connections)),
  slow: (connections = 1_200) => measureHeld('slow', Number(connections)),
  plain: (program = OWN_PROGRAM, rounds = 15) => measurePlain(program, Number(rounds)),
};
process.exitCode = (await MODE[mode](...rest)) ? 0 : 1;
