/**
 * How many durable messages and sessions a service accepts per second, next to one flushed INSERT for each behind bare
 * node:http and ws; and what a message costs services that share a database.
 *   node bench/throughput.mjs [<asp.js of another build>] [rounds]
 *   node bench/throughput.mjs --database <url of an empty PostgreSQL database> [nodes, as 1,2,4] [rounds]
 * All clients are on the same machine. Needs a built program and /proc (Linux).
 */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { WebSocket } from 'ws';

import { startService } from './cost/service.mjs';
import { medianOf, quietEnvironment } from './cpu.mjs';

const database = process.argv[2] === '--database' ? process.argv[3] : undefined;
const other = database === undefined && process.argv[2]?.endsWith('.js') ? process.argv[2] : undefined;
const [nodesGiven, roundsGiven] =
  database === undefined ? [undefined, process.argv[other === undefined ? 2 : 3]] : process.argv.slice(4);
const rounds = Number(roundsGiven ?? 5);
const CONNECTIONS = [1, 16, 64];
/** Each session has two members, so that no agent has more requests in progress than a service allows. */
const SESSIONS = 4;
const MEASURED_MS = 2_000;
const SETTLED_MS = 700;
const TICK_MS = 10;

const lines = new Agent({ keepAlive: true, maxSockets: Math.max(...CONNECTIONS) });
const line = (...cells) => console.log(`| ${cells.join(' | ')} |`);

function post(url, token, body) {
  const bytes = Buffer.from(JSON.stringify(body));
  const headers = { 'content-type': 'application/json', 'content-length': bytes.length };
  if (token !== undefined)
    Object.assign(headers, { authorization: `Bearer ${token}`, 'idempotency-key': randomUUID() });
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: 'POST', headers, agent: lines }, (answer) => {
      answer.resume();
      answer.on('end', () => (answer.statusCode < 300 ? resolve() : reject(new Error(`${url}: ${answer.statusCode}`))));
    });
    sent.on('error', reject);
    sent.end(bytes);
  });
}

async function open(url, headers = {}) {
  const socket = new WebSocket(url, { headers, perMessageDeflate: false });
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  return socket;
}

/** Returns the CPU milliseconds of the main threads of these processes. */
const threadMsOf = (pids) =>
  pids
    .map((pid) => Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6)
    .reduce((sum, ms) => sum + ms, 0);

/** Returns the CPU milliseconds of all PostgreSQL processes on this machine. */
function postgresMs() {
  let sum = 0;
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
    try {
      if (!/postgres/.test(readFileSync(`/proc/${pid}/comm`, 'utf8'))) continue;
      const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
      sum += (Number(fields[11]) + Number(fields[12])) * TICK_MS;
    } catch {
      // The process has ended.
    }
  return sum;
}

/**
 * Starts services that share their data. Each entry of `counts` is a separate side, and both members of its sessions
 * are online.
 */
async function startNodes(counts, options, program = undefined) {
  const crew = Array.from({ length: 2 * SESSIONS }, (_, index) => `member${index}.crew`);
  const shared = ['--limits', 'off', '--seed', crew.join(','), ...options];
  const first = await startService(shared, program);
  const nodes = [first];
  while (nodes.length < Math.max(...counts)) {
    const publicUrl = new URL(first.baseUrl).origin;
    const at = { home: first.at.home, port: '0' };
    nodes.push(await startService([...shared, '--public-url', publicUrl], undefined, at));
  }
  const members = [];
  for (const handle of crew) members.push(await first.tokensOf(handle));
  const sessions = [];
  for (let at = 0; at < crew.length; at += 2) sessions.push(await first.createSession(members[at], [members[at + 1]]));
  const path = (index) => `/v1/sessions/${sessions[Math.floor((index % members.length) / 2)]}/messages`;
  const asSide = (count) => {
    const used = nodes.slice(0, count);
    const host = (index) => `127.0.0.1:${used[index % count].port}`;
    const send = (index, to, body) => post(`http://${host(index)}${to}`, members[index % members.length].api, body);
    return {
      pids: used.map(({ pid }) => pid),
      connect: () =>
        Promise.all(
          members.map(({ ws }, index) => open(`ws://${host(index)}/connect`, { authorization: `Bearer ${ws}` })),
        ),
      message: (index) => send(index, path(index), { content: 'hi' }),
      session: (index) => send(index, '/v1/sessions', {}),
    };
  };
  return {
    sides: counts.map(asSide),
    async stop() {
      for (const node of nodes.reverse()) await node.stop();
    },
  };
}

async function startFloor() {
  const path = fileURLToPath(new URL('delivery/floor.mjs', import.meta.url));
  const child = spawn(process.execPath, [path], { env: quietEnvironment(), stdio: ['ignore', 'pipe', 'inherit'] });
  const [printed] = await new Promise((resolve) => child.stdout.once('data', (...data) => resolve(data)));
  const origin = `http://127.0.0.1:${Number(String(printed))}`;
  const connect = () => open(origin.replace('http', 'ws'));
  const insert = () => post(origin, undefined, { content: 'hi' });
  return {
    sides: [
      { pids: [child.pid], connect: () => Promise.all([connect(), connect()]), message: insert, session: insert },
    ],
    async stop() {
      child.kill('SIGTERM');
      await new Promise((resolve) => child.once('close', resolve));
    },
  };
}

/**
 * Returns the requests per second, and the CPU milliseconds of the services' threads and of the database for each
 * request.
 */
async function measure(side, kind, connections) {
  const sockets = await side.connect();
  await pause(SETTLED_MS);
  const [threads, stored] = [threadMsOf(side.pids), postgresMs()];
  const startedAt = performance.now();
  let count = 0;
  const work = async (index) => {
    for (; performance.now() < startedAt + MEASURED_MS; count += 1) await side[kind](index);
  };
  await Promise.all(Array.from({ length: connections }, (_, index) => work(index)));
  const rate = (count * 1_000) / (performance.now() - startedAt);
  await pause(SETTLED_MS);
  const found = { rate, threadMs: (threadMsOf(side.pids) - threads) / count, storeMs: (postgresMs() - stored) / count };
  for (const socket of sockets) socket.terminate();
  return found;
}

/** Returns the medians of `rounds` measurements of each side. The sides take turns, and the first round warms up. */
async function inTurns(sides, kind, connections) {
  const found = sides.map(() => []);
  for (let round = 0; round <= rounds; round += 1)
    for (const at of round % 2 === 0 ? sides.keys() : [...sides.keys()].reverse()) {
      const one = await measure(sides[at], kind, connections);
      if (round > 0) found[at].push(one);
    }
  return found.map((all) =>
    Object.fromEntries(['rate', 'threadMs', 'storeMs'].map((name) => [name, medianOf(all.map((one) => one[name]))])),
  );
}

async function compareWithFloor() {
  const started = [await startNodes([1], []), await startFloor()];
  if (other !== undefined) started.push(await startNodes([1], [], other));
  const sides = started.flatMap((one) => one.sides);
  const cpu = ['CPU of its thread (ms)', 'of the floor (ms)', 'floor / asp'];
  const before = other === undefined ? [] : ['the other build (per second)', 'CPU of its thread (ms)', 'asp / other'];
  line('requests in progress', 'asp (per second)', 'floor (per second)', 'asp / floor', ...cpu, ...before);
  line(...Array(7 + before.length).fill('---'));
  for (const [kind, all] of Object.entries({ message: CONNECTIONS, session: CONNECTIONS.slice(0, 2) }))
    for (const connections of all) {
      const [asp, floor, earlier] = await inTurns(sides, kind, connections);
      const cells = [asp.rate.toFixed(0), floor.rate.toFixed(0), (asp.rate / floor.rate).toFixed(2)];
      const times = [asp, floor].map(({ threadMs }) => threadMs.toFixed(2));
      const compared = earlier && [earlier.rate.toFixed(0), earlier.threadMs.toFixed(2)];
      const ratios = [floor.threadMs / asp.threadMs, earlier && asp.threadMs / earlier.threadMs];
      const [toFloor, toOther] = ratios.map((ratio) => ratio?.toFixed(2));
      line(
        `${connections}, each a new ${kind}`,
        ...cells,
        ...times,
        toFloor,
        ...(compared ? [...compared, toOther] : []),
      );
    }
  for (const one of started) await one.stop();
}

async function compareNodes(counts) {
  const nodes = await startNodes(counts, ['--database', database]);
  const found = await inTurns(nodes.sides, 'message', Math.max(...CONNECTIONS));
  line(
    'services',
    'messages per second',
    'CPU of their threads (ms)',
    'CPU of PostgreSQL (ms)',
    'per core of PostgreSQL',
  );
  line(...Array(5).fill('---'));
  for (const [at, { rate, threadMs, storeMs }] of found.entries())
    line(counts[at], rate.toFixed(0), threadMs.toFixed(2), storeMs.toFixed(2), (1_000 / storeMs).toFixed(0));
  await nodes.stop();
}

if (database === undefined) await compareWithFloor();
else await compareNodes((nodesGiven ?? '1,2,4').split(',').map(Number));
lines.destroy();
