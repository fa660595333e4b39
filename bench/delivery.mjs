/**
 * Measures what one message costs the service's thread, by number of members and readers, and what idle sockets cost
 * it.
 *   node bench/delivery.mjs [<asp.js of another build>] [rounds]
 * With another build, the two take turns. The floor writes one flushed row for each message and broadcasts it over ws.
 * Needs a built program and /proc (Linux).
 */
import { spawn } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { WebSocket } from 'ws';

import { OWN_PROGRAM, startService } from './cost/service.mjs';
import { medianOf, quietEnvironment, threadMsOf } from './cpu.mjs';

const other = process.argv[2]?.endsWith('.js') ? process.argv[2] : undefined;
const rounds = Number(process.argv[other === undefined ? 2 : 3] ?? 7);
const MESSAGES = 20;
const MEMBERS = [2, 300, 1_000];
const READERS = [0, 1, 10, 100, 999];
const MANY = Math.max(...MEMBERS);
const SOCKETS_PER_AGENT = 16;
const IDLE_SOCKETS = 1_000;
const IDLE_SECONDS = 5;
/** The work after the commit is part of the cost. */
const SETTLED_MS = 700;

async function open(url, headers) {
  const socket = new WebSocket(url, { headers, perMessageDeflate: false });
  let count = 0;
  socket.on('message', () => {
    count += 1;
  });
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  return { count: () => count, close: () => socket.terminate() };
}

async function startSide(name, program) {
  const members = Array.from({ length: Math.max(...MEMBERS) }, (_, index) => `guest${index}.crew`);
  const service = await startService(['--limits', 'off', '--seed', members.join(',')], program);
  const alice = await service.tokensOf('alice.red');
  const guests = [];
  for (const handle of members) guests.push(await service.tokensOf(handle));
  const sessions = new Map();
  for (const count of MEMBERS) sessions.set(count, await service.createSession(alice, guests.slice(0, count - 1)));
  return {
    name,
    pid: service.pid,
    connect: (guest) => open(service.wsUrl, { authorization: `Bearer ${guest.ws}` }),
    guests,
    send: (count) => service.post(`/v1/sessions/${sessions.get(count)}/messages`, alice.api, { content: 'hi' }),
    stop: service.stop,
  };
}

async function startFloor() {
  const path = fileURLToPath(new URL('delivery/floor.mjs', import.meta.url));
  const child = spawn(process.execPath, [path], { env: quietEnvironment(), stdio: ['ignore', 'pipe', 'inherit'] });
  const [printed] = await new Promise((resolve) => child.stdout.once('data', (...data) => resolve(data)));
  const port = Number(String(printed));
  return {
    name: 'floor',
    pid: child.pid,
    guests: [],
    connect: () => open(`ws://127.0.0.1:${port}/`, {}),
    send: () => fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body: '{"content":"hi"}' }).then((r) => r.text()),
    async stop() {
      child.kill('SIGTERM');
      await new Promise((resolve) => child.once('close', resolve));
    },
  };
}

/** Returns the CPU milliseconds of the thread for one message. */
async function costOf(side, members) {
  const before = threadMsOf(side.pid);
  for (let count = 0; count < MESSAGES; count += 1) await side.send(members);
  await pause(SETTLED_MS);
  return (threadMsOf(side.pid) - before) / MESSAGES;
}

async function inTurns(sides, measure) {
  const found = new Map(sides.map((side) => [side.name, []]));
  for (let round = 0; round <= rounds; round += 1)
    for (const side of round % 2 === 0 ? sides : [...sides].reverse()) {
      const ms = await measure(side);
      if (round > 0) found.get(side.name).push(ms);
    }
  return new Map([...found].map(([name, values]) => [name, medianOf(values)]));
}

function print(title, names, rows) {
  console.log(`\n| ${title} | ${names.join(' | ')} |`);
  console.log(`|---|${names.map(() => '---').join('|')}|`);
  for (const [label, ms] of rows)
    console.log(`| ${label} | ${names.map((name) => ms.get(name)?.toFixed(2) ?? '').join(' | ')} |`);
}

const services = [await startSide('this', OWN_PROGRAM)];
if (other !== undefined) services.push(await startSide('other', other));
const sides = [...services, await startFloor()];
const names = sides.map(({ name }) => name);
try {
  const byMembers = [];
  for (const count of MEMBERS)
    byMembers.push([`${count} members`, await inTurns(services, (side) => costOf(side, count))]);
  print('thread ms of a message, nobody online', names.slice(0, -1), byMembers);

  const byReaders = [];
  const sockets = new Map(sides.map(({ name }) => [name, []]));
  for (const count of READERS) {
    for (const side of sides) {
      const open = sockets.get(side.name);
      while (open.length < count) open.push(await side.connect(side.guests[open.length]));
      await side.send(MANY);
      await pause(1_500);
    }
    byReaders.push([`${count} readers`, await inTurns(sides, (side) => costOf(side, MANY))]);
  }
  print(`thread ms of a message to ${MANY} members, of whom are online`, names, byReaders);
  for (const list of sockets.values()) for (const socket of list.splice(0)) socket.close();
  await pause(500);

  for (const side of sides) {
    const list = sockets.get(side.name);
    for (let index = 0; list.length < IDLE_SOCKETS; index += 1)
      list.push(await side.connect(side.guests[Math.floor(index / SOCKETS_PER_AGENT)]));
  }
  await pause(2_000);
  const idle = await inTurns(sides, async (side) => {
    const before = threadMsOf(side.pid);
    await pause(IDLE_SECONDS * 1_000);
    return (threadMsOf(side.pid) - before) / IDLE_SECONDS;
  });
  print('thread ms per second', names, [[`${IDLE_SOCKETS} idle sockets`, idle]]);
  for (const list of sockets.values()) for (const socket of list) socket.close();
} finally {
  for (const side of sides) await side.stop();
}
