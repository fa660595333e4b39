/**
 * Measures how a service behaves at its limits.
 *   node bench/load.mjs bystander [members]     other sessions next to one whose members are all online, at its rate limit
 *   node bench/load.mjs overload [requests]     this many requests in progress at all times
 *   node bench/load.mjs reconnect [sockets]     all of them come back after a restart
 *   node bench/load.mjs guard [messages]        a message with --loop-guard, compared with one without, in sessions with
 *                                               short and long histories
 *   node bench/load.mjs idle [sockets]          memory of idle sockets, compared with bare ws; on PostgreSQL, also the
 *                                               transactions of a service per second, without them and with them
 *   node bench/load.mjs tail [events [asp.js of another build]]   `asp tail` of a backlog into a pipe
 * Put --database <url> before the mode to run on PostgreSQL. Needs a built program and /proc (Linux).
 */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { Agent } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import pg from 'pg';
import { WebSocket } from 'ws';

import { OWN_PROGRAM, startService } from './cost/service.mjs';
import { cpuOf, medianOf, quietEnvironment, threadMsOf } from './cpu.mjs';

const SOCKETS_PER_AGENT = 16;
const share = (values, part) => {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
};
const line = (...cells) => console.log(`| ${cells.join(' | ')} |`);
const fixed = (value, digits = 1) => value.toFixed(digits);

function open(url, token) {
  const socket = new WebSocket(url, { headers: { authorization: `Bearer ${token}` }, perMessageDeflate: false });
  return new Promise((resolve, reject) => {
    socket.once('open', () => resolve(socket)).once('error', reject);
  });
}

async function openAll(url, tokens, atOnce = 32) {
  const sockets = [];
  for (let start = 0; start < tokens.length; start += atOnce)
    sockets.push(...(await Promise.all(tokens.slice(start, start + atOnce).map((token) => open(url, token)))));
  return sockets;
}

/** The readers run in their own thread so that they do not delay what is measured. */
if (!isMainThread) {
  const { url, tokens } = workerData;
  let count = 0;
  for (const socket of await openAll(url, tokens)) socket.on('message', () => (count += 1));
  parentPort.on('message', () => parentPort.postMessage(count));
  parentPort.postMessage('open');
}

async function startReaders(url, tokens) {
  const worker = new Worker(new URL(import.meta.url), { workerData: { url, tokens } });
  const answer = () => new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject));
  await answer();
  return {
    count() {
      worker.postMessage('count');
      return answer();
    },
    stop: () => worker.terminate(),
  };
}

const database = process.argv[2] === '--database' ? process.argv[3] : undefined;
const [mode, given, otherProgram] = process.argv.slice(database === undefined ? 2 : 4);
const start = (options = [], at = undefined) =>
  startService(
    ['--limits', 'off', ...options, ...(database === undefined ? [] : ['--database', database])],
    OWN_PROGRAM,
    at,
  );
const crew = (count) => Array.from({ length: count }, (_, index) => `guest${index}.crew`);

const BYSTANDER_MS = 20_000;

async function measureBystander(members = 1_000) {
  const service = await start(['--max-participants', String(members + 1), '--seed', crew(members - 1).join(',')]);
  const alice = await service.tokensOf('alice.red');
  const bob = await service.tokensOf('bob.blue');
  const guests = [];
  for (const handle of crew(members - 1)) guests.push(await service.tokensOf(handle));
  const loud = await service.createSession(alice, guests);
  const quiet = await service.createSession(bob, [alice]);
  const tokens = guests.map(({ ws }) => ws);
  const readers = await startReaders(service.wsUrl, tokens);
  await pause(5_000);
  /** Measures latencies of a bystander's messages and reads. */
  const watch = async (forMs, sendsToo) => {
    const found = { POST: [], GET: [] };
    let sending = Promise.resolve();
    let nextMs = performance.now();
    for (const until = performance.now() + forMs; performance.now() < until; await pause(25)) {
      if (sendsToo && performance.now() >= nextMs) {
        nextMs += 1_000;
        sending = service.post(`/v1/sessions/${loud}/messages`, alice.api, { content: 'to all' });
      }
      const sent = await service.call('POST', `/v1/sessions/${quiet}/messages`, {
        token: bob.api,
        body: { content: 'hi' },
      });
      const read = await service.call('GET', '/v1/sessions', { token: bob.api });
      found.POST.push(sent.ms);
      found.GET.push(read.ms);
    }
    await sending;
    return found;
  };
  await watch(3_000, true);
  const ratios = [];
  const sides = { silent: { POST: [], GET: [] }, loud: { POST: [], GET: [] } };
  for (let round = 0; round < 3; round += 1)
    for (const name of round % 2 === 0 ? ['silent', 'loud'] : ['loud', 'silent']) {
      const found = await watch(BYSTANDER_MS / 2, name === 'loud');
      for (const method of ['POST', 'GET']) sides[name][method].push(...found[method]);
    }
  line(`${members} members online`, 'silent (ms)', '1 message per second (ms)', 'ratio');
  line('---', '---', '---', '---');
  for (const method of ['POST', 'GET'])
    for (const part of [0.5, 0.99]) {
      const [one, other] = [share(sides.silent[method], part), share(sides.loud[method], part)];
      ratios.push(other / one);
      line(`a bystander's ${method}, p${part * 100}`, fixed(one), fixed(other), fixed(other / one, 2));
    }
  console.log(`${await readers.count()} events were received`);
  await readers.stop();
  await service.stop();
}

const OVERLOAD_MS = 10_000;
const CALLERS_PER_AGENT = 24;

async function measureOverload(requests = 1_200) {
  const count = Math.ceil(requests / CALLERS_PER_AGENT);
  const service = await start(['--seed', crew(count).join(',')]);
  const senders = [];
  for (const handle of crew(count)) {
    const sender = await service.tokensOf(handle);
    senders.push({ ...sender, session: await service.createSession(sender, []), acknowledged: new Set() });
  }
  const agent = new Agent({ keepAlive: true, maxSockets: requests });
  const probes = new Agent({ keepAlive: true, maxSockets: 1 });
  const post = ({ session, api }) =>
    service.call('POST', `/v1/sessions/${session}/messages`, { token: api, body: { content: 'x' }, agent });
  const calm = [];
  for (let round = 0; round < 100; round += 1) calm.push((await post(senders[0])).ms);
  const statuses = {};
  const refusedMs = [];
  const acceptedMs = [];
  let isOver = false;
  const send = async (sender) => {
    while (!isOver) {
      const answer = await post(sender).catch(() => ({ status: 'cut', ms: 0, text: '{}' }));
      statuses[answer.status] = (statuses[answer.status] ?? 0) + 1;
      if (answer.status === 201) {
        sender.acknowledged.add(JSON.parse(answer.text).sequence);
        acceptedMs.push(answer.ms);
      } else if (answer.status === 503) refusedMs.push(answer.ms);
    }
  };
  const callers = senders.flatMap((sender) => Array.from({ length: CALLERS_PER_AGENT }, () => send(sender)));
  const ready = {};
  const readyMs = [];
  for (const until = performance.now() + OVERLOAD_MS; performance.now() < until; await pause(200)) {
    const { status, ms } = await service.call('GET', '/ready', { agent: probes });
    ready[status] = (ready[status] ?? 0) + 1;
    readyMs.push(ms);
  }
  isOver = true;
  await Promise.all(callers);
  let lost = 0;
  for (const { session, api, acknowledged } of senders) {
    const kept = new Set();
    for (let after = 0, more = true; more; ) {
      const { text } = await service.call('GET', `/v1/sessions/${session}/events?limit=1000&after_sequence=${after}`, {
        token: api,
      });
      const { events, next_cursor } = JSON.parse(text);
      for (const { sequence } of events) kept.add(sequence);
      more = next_cursor !== null;
      after = Number(next_cursor);
    }
    lost += [...acknowledged].filter((sequence) => !kept.has(sequence)).length;
  }
  console.log(`${callers.length} requests in progress for ${OVERLOAD_MS / 1_000} s: ${JSON.stringify(statuses)}`);
  console.log(`/ready: ${JSON.stringify(ready)}, p99 ${fixed(share(readyMs, 0.99))} ms`);
  console.log(`alone: p50 ${fixed(medianOf(calm))} ms; accepted: p50 ${fixed(share(acceptedMs, 0.5))} ms`);
  console.log(`refused: p50 ${fixed(share(refusedMs, 0.5))}, p99 ${fixed(share(refusedMs, 0.99))} ms; ${lost} lost`);
  agent.destroy();
  probes.destroy();
  await service.stop();
}

async function agentsFor(service, sockets) {
  const tokens = [];
  for (const handle of crew(Math.ceil(sockets / SOCKETS_PER_AGENT))) {
    const { ws } = await service.tokensOf(handle);
    for (let count = 0; count < SOCKETS_PER_AGENT && tokens.length < sockets; count += 1) tokens.push(ws);
  }
  return tokens;
}

async function measureReconnect(sockets = 10_000) {
  const seeds = ['--seed', crew(Math.ceil(sockets / SOCKETS_PER_AGENT)).join(',')];
  const first = await start(seeds);
  const tokens = await agentsFor(first, sockets);
  const closedMs = [];
  let stoppedMs = 0;
  let backMs = [];
  let failures = 0;
  const again = [];
  /** Reconnects like the library: after a random pause of up to a second, doubled after each failure. */
  const comeBack = async (token, url = first.wsUrl) => {
    for (let attempt = 0; ; attempt += 1) {
      await pause(Math.random() * 1_000 * 2 ** Math.min(attempt, 5));
      const socket = await open(url, token).catch(() => undefined);
      if (socket !== undefined) {
        backMs.push(performance.now());
        return socket;
      }
      failures += 1;
    }
  };
  const startedMs = performance.now();
  const open1 = await Promise.all(tokens.map((token) => comeBack(token)));
  console.log(`${sockets} sockets opened in ${fixed((performance.now() - startedMs) / 1_000)} s`);
  backMs = [];
  failures = 0;
  for (const [index, socket] of open1.entries())
    socket.once('close', () => {
      closedMs.push(performance.now() - stoppedMs);
      again.push(comeBack(tokens[index]));
    });
  stoppedMs = performance.now();
  await first.stop(true);
  const endedMs = performance.now();
  console.log(
    `closed over ${fixed((Math.max(...closedMs) - Math.min(...closedMs)) / 1_000)} s; ended after ${fixed((endedMs - stoppedMs) / 1_000)} s`,
  );
  const second = await start(seeds, first.at);
  while (again.length < sockets) await pause(50);
  const all = await Promise.all(again);
  const threadMs = second.threadMs();
  const [firstMs] = backMs;
  const after = [0.5, 0.9, 0.99, 1].map(
    (part) => `${part * 100} % ${fixed((share(backMs, part) - firstMs) / 1_000)} s`,
  );
  console.log(`back after the first of them: ${after.join(', ')}; ${failures} failed attempts`);
  console.log(`${fixed(threadMs / sockets, 3)} ms of the service's thread for each, with its start`);
  for (const socket of all) socket.terminate();
  await pause(2_000);
  const floor = await startFloor();
  for (const [name, { pid, wsUrl }] of Object.entries({ this: second, 'bare ws': floor })) {
    const before = threadMsOf(pid);
    const own = process.cpuUsage();
    const opened = await Promise.all(tokens.map((token) => comeBack(token, wsUrl)));
    const { user, system } = process.cpuUsage(own);
    const spentMs = [threadMsOf(pid) - before, (user + system) / 1_000].map((ms) => fixed(ms / sockets, 3));
    console.log(`${name}: ${spentMs[0]} ms of its thread for each without a start, ${spentMs[1]} of this client`);
    for (const socket of opened) socket.terminate();
    await pause(2_000);
  }
  await floor.stop();
  await second.stop();
}

const rssOf = (pid) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);

async function startFloor() {
  const path = fileURLToPath(new URL('delivery/floor.mjs', import.meta.url));
  const child = spawn(process.execPath, [path], { env: quietEnvironment(), stdio: ['ignore', 'pipe', 'inherit'] });
  const [printed] = await new Promise((resolve) => child.stdout.once('data', (...data) => resolve(data)));
  return {
    pid: child.pid,
    wsUrl: `ws://127.0.0.1:${Number(String(printed))}/`,
    stop: () => new Promise((resolve) => child.once('close', resolve) && child.kill('SIGTERM')),
  };
}

const COUNTED_MS = 60_000;

/** Transactions of the database per second. Nothing else may use it in the meantime. */
async function countTransactions() {
  const client = new pg.Client({ connectionString: database });
  await client.connect();
  const count = async () => {
    // Idle connections report theirs within ten seconds.
    await pause(11_000);
    const { rows } = await client.query(
      'SELECT xact_commit + xact_rollback AS count FROM pg_stat_database WHERE datname = current_database()',
    );
    return Number(rows[0].count);
  };
  const [before, startedMs] = [await count(), performance.now()];
  await pause(COUNTED_MS);
  const perSecond = ((await count()) - before) / ((performance.now() - startedMs) / 1_000);
  await client.end();
  return perSecond;
}

async function measureIdle(sockets = 5_000) {
  const service = await start(['--seed', crew(Math.ceil((2 * sockets) / SOCKETS_PER_AGENT)).join(',')]);
  const tokens = await agentsFor(service, sockets);
  if (database !== undefined)
    console.log(`${fixed(await countTransactions(), 2)} transactions per second without sockets`);
  const floor = await startFloor();
  line('', 'before (MiB)', `${sockets} idle sockets (MiB)`, 'for each (KiB)');
  line('---', '---', '---', '---');
  const kib = [];
  for (const [name, { pid, wsUrl }] of Object.entries({ this: service, 'bare ws': floor })) {
    // The first sockets also pay for code and buffers that load once, so they do not count.
    for (const socket of await openAll(wsUrl, tokens.slice(0, 500))) socket.terminate();
    await pause(5_000);
    const before = rssOf(pid);
    const open2 = await openAll(wsUrl, tokens);
    await pause(25_000);
    const after = rssOf(pid);
    kib.push((after - before) / sockets);
    line(name, fixed(before / 1024), fixed(after / 1024), fixed((after - before) / sockets, 2));
    if (database !== undefined && name === 'this')
      console.log(`${fixed(await countTransactions(), 2)} transactions per second with them`);
    for (const socket of open2) socket.terminate();
  }
  console.log(`ratio ${fixed(kib[0] / kib[1], 2)}`);
  await floor.stop();
  await service.stop();
}

async function measureTail(events = 10_000) {
  const service = await start();
  const alice = await service.tokensOf('alice.red');
  const bob = await service.tokensOf('bob.blue');
  const session = await service.createSession(alice, [bob]);
  const few = 200;
  let sent = 2;
  const send = async () => {
    while (sent < events) {
      sent += 1;
      await service.post(`/v1/sessions/${session}/messages`, alice.api, { content: 'the quick brown fox' });
    }
  };
  await Promise.all(Array.from({ length: 64 }, send));
  const env = {
    ...service.env,
    ASP_PROFILE: service.baseUrl,
    ASP_CLIENT_ID: bob.client_id,
    ASP_CLIENT_SECRET: bob.client_secret,
  };
  const tail = (program, count) =>
    cpuOf([process.execPath, program, 'tail', session, '--after', '0', '-c', String(count), '--json'], env, {
      isPiped: true,
    });
  const programs = otherProgram === undefined ? [OWN_PROGRAM] : [OWN_PROGRAM, otherProgram];
  for (const program of programs) tail(program, few);
  const micros = programs.map(() => []);
  for (let round = 0; round < 5; round += 1)
    for (const [index, program] of programs.entries()) {
      const [little, much] = [tail(program, few), tail(program, events)];
      micros[index].push(((much - little) / (events - few)) * 1e6);
    }
  for (const [index, program] of programs.entries())
    console.log(`${program}: tail of ${events} events: ${fixed(medianOf(micros[index]))} µs of CPU for each event`);
  await service.stop();
}

const GUARD_MAX = 1_000;
const GUARD_ROUNDS = 21;
const GUARD_MESSAGES = 400;

/**
 * The services with and without the guard take turns. A person writes often enough that the guard never stops a
 * session.
 */
async function measureGuard(messages = 20_000) {
  const sides = [];
  for (const options of [[], ['--loop-guard', String(GUARD_MAX)]]) {
    const service = await start(options);
    const [alice, bob] = [await service.tokensOf('alice.red'), await service.tokensOf('bob.blue')];
    const send = async (session, count, atOnce = 16) => {
      let sent = 0;
      const one = async () => {
        while (sent < count) {
          sent += 1;
          const metadata = sent % (GUARD_MAX / 2) === 1 ? { metadata: { sent_by: 'chat' } } : {};
          await service.post(`/v1/sessions/${session}/messages`, alice.api, { content: 'hi', ...metadata });
        }
      };
      await Promise.all(Array.from({ length: atOnce }, one));
    };
    const [brief, long] = [await service.createSession(alice, [bob]), await service.createSession(alice, [bob])];
    await send(long, messages, 64);
    await send(brief, 20);
    sides.push({ service, send, sessions: { brief, long } });
  }
  for (const history of ['brief', 'long']) {
    const costs = sides.map(() => []);
    for (let round = 0; round < GUARD_ROUNDS; round += 1)
      for (const [index, { service, send, sessions }] of sides.entries()) {
        const before = service.threadMs();
        await send(sessions[history], GUARD_MESSAGES);
        costs[index].push((service.threadMs() - before) / GUARD_MESSAGES);
      }
    const [off, on] = costs;
    const ratios = on.map((cost, round) => cost / off[round]);
    const size = history === 'long' ? messages : 20;
    line(`after ${size} messages`, fixed(medianOf(off), 3), fixed(medianOf(on), 3), fixed(medianOf(ratios), 2));
  }
  for (const { service } of sides) await service.stop();
}

const MODE = {
  guard: measureGuard,
  bystander: measureBystander,
  overload: measureOverload,
  reconnect: measureReconnect,
  idle: measureIdle,
  tail: measureTail,
};
if (isMainThread) await MODE[mode](given === undefined ? undefined : Number(given));
