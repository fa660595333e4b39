import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { request } from '../support/http.js';
import { until } from '../support/until.js';
import { createHome, type Home, json, jsonLines, startServe } from './program.js';

/** Returns why the test cannot create a small disk, or undefined. */
function noDisk(directory: string): string | undefined {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', directory], { stdio: 'ignore' });
    execFileSync('umount', [directory], { stdio: 'ignore' });
    return undefined;
  } catch {
    return 'a small disk cannot be mounted by this user';
  }
}

const probe = createHome();
const reason = noDisk(probe.directory);
await probe.dispose();

describe.skipIf(reason !== undefined)(`a full disk ${reason ?? ''}`, () => {
  let home: Home;
  let disk: string;

  beforeAll(() => {
    home = createHome();
    disk = join(home.directory, 'serve-data');
    mkdirSync(disk);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4m,mode=0700', 'tmpfs', disk]);
  });
  afterAll(async () => {
    await home.dispose().catch(() => {});
    execFileSync('umount', ['-l', disk], { stdio: 'ignore' });
    rmSync(home.directory, { recursive: true, force: true });
  });

  it('keeps acknowledged messages and refuses others with exit 9, until there is space again', async () => {
    const service = await startServe(home, ['--demo', '--limits', 'off']);
    expect(await home.asp(['login', '@demo.you', '--yes'])).toMatchObject({ status: 0 });
    const sid = (await home.asp(['session', 'create'])).stdout.trim();
    const filler = join(disk, 'filler');
    const sent: string[] = [];
    const send = async (text: string): Promise<number | null> => {
      const ended = await home.asp(['send', sid, '-F', '-', '--json', '--retries', '0'], { input: text });
      if (ended.status === 0) sent.push(text);
      else {
        expect(ended.stdout).toBe('');
        expect(json<{ error: object }>(ended.stderr).error).toMatchObject({ code: 'INTERNAL_ERROR', exit_code: 9 });
      }
      return ended.status;
    };
    expect(await send('before')).toBe(0);
    fill(filler);
    let refusals = 0;
    for (let number = 0; number < 30 && refusals < 3; number += 1)
      if ((await send(`${number} ${'x'.repeat(150_000)}`)) !== 0) refusals += 1;
    expect(refusals).toBe(3);
    const ready = async () => (await request(`${new URL(service.url).origin}/ready`)).status;
    expect(await ready()).toBe(503);
    rmSync(filler);
    await until('it is ready without a write of anybody else', async () => (await ready()) === 200);
    expect(await send('after')).toBe(0);
    const replayed = await home.asp(['session', 'events', sid, '--after', '0', '--type', 'session.message']);
    const texts = jsonLines<{ payload: { content: string } }>(replayed.stdout).map(({ payload }) => payload.content);
    expect(texts).toEqual(sent);
    expect(await service.stop()).toMatchObject({ status: 0 });
    const again = await startServe(home, ['--demo'], service.url);
    expect((await home.asp(['session', 'events', sid, '--after', '0', '--type', 'session.message'])).stdout).toBe(
      replayed.stdout,
    );
    expect(await again.stop()).toMatchObject({ status: 0 });
  });
});

/** Fills the rest of the disk. */
function fill(path: string): void {
  for (let size = 4 * 1024 * 1024; size >= 4096; size = Math.floor(size / 2))
    try {
      writeFileSync(path, Buffer.alloc(size), { flag: 'a' });
    } catch {
      // This was too much. Try less.
    }
}
