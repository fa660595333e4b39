import { spawn, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { Agent, request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { quietEnvironment, threadMsOf } from '../cpu.mjs';

export const OWN_PROGRAM = fileURLToPath(new URL('../../bin/asp.js', import.meta.url));

/**
 * Starts a service in its own process with its data on disk, and returns functions to call it. `at`: where an earlier
 * one with the same data listened.
 */
export async function startService(options = [], program = OWN_PROGRAM, at = undefined) {
  const home = at?.home ?? mkdtempSync(join(tmpdir(), 'asp-bench-'));
  mkdirSync(join(home, 'run'), { mode: 0o700, recursive: true });
  const env = quietEnvironment({ HOME: home, XDG_RUNTIME_DIR: join(home, 'run'), ASP_TOKEN_STORE: 'file' });
  const serve = [
    'serve',
    '--port',
    at?.port ?? '0',
    '--data',
    join(home, 'data'),
    '--seed',
    'alice.red,bob.blue',
    ...options,
  ];
  const service = spawn(process.execPath, [program, ...serve], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  const [printed] = await new Promise((resolve) => service.stdout.once('data', (...data) => resolve(data)));
  const baseUrl = /http:\S+/.exec(String(printed))[0];
  const wsUrl = `${new URL(baseUrl).origin.replace('http', 'ws')}/connect`;
  /** The file that tells the service's operator how to reach it. */
  const recordPath = join(home, 'run', 'asp-cli', 'serve', 'default.json');
  const lines = new Agent({ keepAlive: true, maxSockets: 64 });

  const call = (method, path, { token, body, headers = {}, agent = lines, key = randomUUID() } = {}) =>
    new Promise((resolve, reject) => {
      const bytes =
        body === undefined ? undefined : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
      const all = {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(method !== 'GET' && { 'idempotency-key': key }),
        ...(bytes !== undefined && { 'content-type': 'application/json', 'content-length': bytes.length }),
        ...headers,
      };
      const startedAt = process.hrtime.bigint();
      const sent = httpRequest(new URL(path, baseUrl), { method, headers: all, agent }, (answer) => {
        const chunks = [];
        answer.on('data', (chunk) => chunks.push(chunk));
        answer.on('end', () => {
          const ms = Number(process.hrtime.bigint() - startedAt) / 1e6;
          resolve({ status: answer.statusCode, text: Buffer.concat(chunks).toString(), ms });
        });
        answer.on('error', reject);
      });
      sent.on('error', reject);
      sent.end(bytes);
    });

  const tokenOf = async (handle) => {
    const added = spawnSync(process.execPath, [program, 'serve', 'client', 'add', handle, '--json'], { env });
    const { client_id, client_secret } = JSON.parse(added.stdout.toString());
    const form = new URLSearchParams({ grant_type: 'client_credentials', client_id, client_secret, resource: baseUrl });
    const answer = await call('POST', '/token', {
      body: form.toString(),
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    });
    return JSON.parse(answer.text).access_token;
  };

  const operator = () => JSON.parse(readFileSync(recordPath, 'utf8'));
  /** Returns a new agent's tokens for REST and WebSocket, and its client. */
  const tokensOf = async (handle) => {
    const { secret, operator_url } = operator();
    const headers = { authorization: `Bearer ${secret}` };
    const made = await call('POST', `${operator_url}/clients`, { headers, body: { handle: `@${handle}` } });
    const { client_id, client_secret } = JSON.parse(made.text);
    const token = async (resource) => {
      const form = new URLSearchParams({ grant_type: 'client_credentials', client_id, client_secret, resource });
      const reply = await call('POST', '/token', {
        body: form.toString(),
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
      });
      return JSON.parse(reply.text).access_token;
    };
    return { handle, client_id, client_secret, api: await token(baseUrl), ws: await token(wsUrl) };
  };
  const post = async (path, token, body) => {
    const reply = await call('POST', path, { token, body });
    if (reply.status >= 300) throw new Error(`${path}: ${reply.status} ${reply.text}`);
    return JSON.parse(reply.text);
  };
  /** Returns the id of a session that all `guests` have joined. */
  const createSession = async (owner, guests) => {
    const id = (await post('/v1/sessions', owner.api, {})).session_id;
    for (let start = 0; start < guests.length; start += 50)
      await post(`/v1/sessions/${id}/invite`, owner.api, {
        invite: guests.slice(start, start + 50).map(({ handle }) => `@${handle}`),
      });
    for (const guest of guests) await post(`/v1/sessions/${id}/join`, guest.api, {});
    return id;
  };

  return {
    baseUrl,
    wsUrl,
    recordPath,
    tokensOf,
    post,
    createSession,
    /** For a client in its own process. */
    env,
    /** Where the next service with this data can listen. */
    at: { home, port: new URL(baseUrl).port },
    port: Number(new URL(baseUrl).port),
    pid: service.pid,
    call,
    tokenOf,
    /** Returns the CPU milliseconds of the thread that runs the service's code. */
    threadMs: () => threadMsOf(service.pid),
    memoryMiB: () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${service.pid}/status`, 'utf8'))[1]) / 1024,
    async stop(keepsData = false) {
      lines.destroy();
      const ended = new Promise((resolve) => service.once('close', resolve));
      service.kill('SIGTERM');
      await ended;
      if (!keepsData) rmSync(home, { recursive: true, force: true });
    },
  };
}
