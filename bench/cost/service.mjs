import { spawn, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { Agent, request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { quietEnvironment } from '../cpu.mjs';

export const OWN_PROGRAM = fileURLToPath(new URL('../../bin/asp.js', import.meta.url));

/** A service of its own process, with its data on the disk, and the means to call it. */
export async function startService(options = [], program = OWN_PROGRAM) {
  const home = mkdtempSync(join(tmpdir(), 'asp-bench-'));
  mkdirSync(join(home, 'run'), { mode: 0o700 });
  const env = quietEnvironment({ HOME: home, XDG_RUNTIME_DIR: join(home, 'run'), ASP_TOKEN_STORE: 'file' });
  const serve = ['serve', '--port', '0', '--data', join(home, 'data'), '--seed', 'alice.red,bob.blue', ...options];
  const service = spawn(process.execPath, [program, ...serve], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  const [printed] = await new Promise((resolve) => service.stdout.once('data', (...data) => resolve(data)));
  const baseUrl = /http:\S+/.exec(String(printed))[0];
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

  return {
    baseUrl,
    wsUrl: `${new URL(baseUrl).origin.replace('http', 'ws')}/connect`,
    /** Where the service says how its operator reaches it. */
    recordPath: join(home, 'run', 'asp-cli', 'serve', 'default.json'),
    pid: service.pid,
    call,
    tokenOf,
    /** Milliseconds that the one thread that runs the service's code has spent on a processor. */
    threadMs: () => {
      const [ns] = readFileSync(`/proc/${service.pid}/task/${service.pid}/schedstat`, 'utf8').split(' ');
      return Number(ns) / 1e6;
    },
    memoryMiB: () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${service.pid}/status`, 'utf8'))[1]) / 1024,
    async stop() {
      lines.destroy();
      service.kill('SIGTERM');
      await new Promise((resolve) => service.once('close', resolve));
      rmSync(home, { recursive: true, force: true });
    },
  };
}
