import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import type { Actor } from '../support/actors.js';
import { programWords } from '../support/built-program-file.js';
import { request } from '../support/http.js';
import { actorIn } from '../support/operator.js';
import { until } from '../support/until.js';
import {
  createHome,
  type Home,
  json,
  jsonLines,
  type Running,
  type ServiceProcess,
  startServe,
  stopAll,
} from './program.js';

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
    const service = await startServe(home, ['--demo', '--limits', 'off', '--log', 'json']);
    expect(await home.run(['login', '@demo.you', '--yes'])).toMatchObject({ status: 0 });
    const sid = (await home.asp(['session', 'create'])).stdout.trim();
    const owner = await actorIn(home, service.url, '@demo.you');
    await owner.mustReplay(sid);
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
    const refused = await owner.post(`/sessions/${sid}/messages`, { content: 'x'.repeat(150_000) });
    expect(refused).toMatchObject({ status: 503, json: { error: { code: 'INTERNAL_ERROR' } } });
    expect(refused.headers['retry-after']).toBe('2');
    const ready = async () => (await request(`${new URL(service.url).origin}/ready`)).status;
    expect(await ready()).toBe(503);
    const status = async (): Promise<string> => (await mustRunIn(home, ['serve', 'status'])).stdout;
    expect(await status()).toMatch(/^running at http.*\nprocess .*\nready {4}no: .*disk is full\n/);
    const { stderr } = await mustRunIn(home, ['serve', 'backup', 'saved.tar']);
    expect(stderr).toContain(
      `The service will not show this backup, because ${disk}/backups.json could not be written: the disk is full (ENOSPC).`,
    );
    rmSync(filler);
    await until('it is ready without a write of anybody else', async () => (await ready()) === 200);
    expect(await status()).not.toContain('ready');
    expect(await send('after')).toBe(0);
    const replayed = await home.asp(['session', 'events', sid, '--after', '0', '--type', 'session.message']);
    const texts = jsonLines<{ payload: { content: string } }>(replayed.stdout).map(({ payload }) => payload.content);
    expect(texts).toEqual(sent);
    expect(await service.stop()).toMatchObject({ status: 0 });
    const changes = service.running
      .stderr()
      .match(/\b(database_(down|up)|not_ready|heartbeat_failed|request_failed)\b/g);
    expect(changes).toEqual(['database_down', 'not_ready', 'database_up']);
    const again = await startServe(home, ['--demo'], service.url);
    expect((await home.asp(['session', 'events', sid, '--after', '0', '--type', 'session.message'])).stdout).toBe(
      replayed.stdout,
    );
    expect(await again.stop()).toMatchObject({ status: 0 });
  }, 180_000);

  it('loses lines of the log of a service, but no later ones, and each is on a new line', async () => {
    const log = join(disk, 'log');
    const words = ['serve', '--port', '0', '--data', 'memory', '--log', 'text'];
    const service = home.spawn('sh', ['-c', 'exec "$@" 2>> "$0"', log, process.execPath, ...programWords(words)]);
    const [, url = ''] = await service.until('stdout', /^(http:\S+)$/m);
    const ask = async (name: string) => request(`${url}/${name}`, { headers: { 'x-request-id': name } });
    const filler = join(disk, 'filler');
    fill(filler);
    for (let count = 0; count < 60; count += 1) await ask(`during-${count}`);
    expect(readFileSync(log, 'utf8')).not.toContain('during-59');
    rmSync(filler);
    await ask('after-it');
    const line = await until('the line', async () => /^.*after-it$/m.exec(readFileSync(log, 'utf8'))?.[0]);
    expect(line).toMatch(/^\d{4}-\S+ info request method=GET/);
    service.kill('SIGINT');
    await service.ended;
    rmSync(log);
  });

  it('asp skill install names the file that it could not write, and leaves nothing of it', async () => {
    const project = join(disk, 'project');
    mkdirSync(project);
    fill(join(disk, 'filler'));
    const install = () => home.asp(['skill', 'install', 'claude-code', '--project'], { cwd: project });
    const file = join(project, '.claude/skills/asp/SKILL.md');
    const refused = await install();
    expect(refused).toMatchObject({ status: 2, stdout: '' });
    expect(refused.stderr).toContain(`asp cannot read or write ${file}.`);
    expect(refused.stderr).toContain('the disk is full (ENOSPC). Nothing was changed.');
    expect(existsSync(file)).toBe(false);
    rmSync(join(disk, 'filler'));
    expect(await install()).toMatchObject({ status: 0 });
  });
});

async function mustRunIn(home: Home, words: readonly string[]) {
  const ended = await home.asp([...words]);
  expect(ended, ended.stderr).toMatchObject({ status: 0 });
  return ended;
}

function mountReadOnly(home: Home): void {
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'ro', 'tmpfs', home.directory]);
}

async function unmount(home: Home): Promise<void> {
  execFileSync('umount', ['-l', home.directory], { stdio: 'ignore' });
  await home.dispose();
}

describe.skipIf(reason !== undefined)(`a home directory on a read-only disk ${reason ?? ''}`, () => {
  let disk: Home;

  beforeAll(() => {
    disk = createHome();
    mountReadOnly(disk);
  });
  afterAll(async () => {
    await unmount(disk);
  });

  it.each(['bash', 'zsh', 'fish'])('asp completion %s --install says so', async (shell) => {
    const { status, stderr } = await disk.asp(['completion', shell, '--install'], {
      environment: { HOME: disk.directory },
    });
    expect(status).toBe(2);
    expect(stderr).toContain('the disk is read-only (EROFS)');
  });
});

describe.skipIf(reason !== undefined)(`a sign-in whose home directory is on a read-only disk ${reason ?? ''}`, () => {
  let disk: Home;
  let home: Home;
  let service: ServiceProcess;

  beforeAll(async () => {
    home = createHome();
    service = await startServe(home, ['--seed', 'me.bot']);
    disk = createHome({ XDG_RUNTIME_DIR: home.environment['XDG_RUNTIME_DIR'], ASP_TOKEN_STORE: undefined });
    mountReadOnly(disk);
  });
  afterAll(async () => {
    await unmount(disk);
    await service.stop();
    await home.dispose();
  });

  it.each([['--yes'], ['--no-browser'], ['--start'], ['--yes', '--store', 'keychain'], ['--yes', '--store', 'file']])(
    'asp login %s says that the disk is read-only and where else a login can be stored',
    async (...words) => {
      const { status, stderr } = await disk.asp(['login', '@me.bot', ...words]);
      expect(status).toBe(4);
      expect(stderr).toContain('the disk is read-only (EROFS). You were not signed in.');
      expect(stderr).toContain('set XDG_STATE_HOME to a writable folder');
      expect(stderr).not.toContain('try:');
    },
  );

  it('a command of an agent that never signed in says so and does not mention the keychain', async () => {
    const { status, stderr } = await disk.asp(['session', 'list', '--as', '@me.bot']);
    expect(status).toBe(4);
    expect(stderr).toContain('@me.bot is not signed in');
    expect(stderr).not.toContain('keychain');
  });

  it('doctor names both reasons why a login cannot be stored', async () => {
    const { stdout } = await disk.asp(['doctor']);
    expect(stdout).toMatch(/^store\tproblem\t.*no keychain.*the disk is read-only \(EROFS\)/m);
  });
});

describe.skipIf(reason !== undefined)(
  `a login in a folder that becomes read-only, as in a sandbox ${reason ?? ''}`,
  () => {
    it('works until it has to renew itself, says then what it needs, and is not lost', async () => {
      const home = createHome();
      const state = join(home.directory, 'state');
      mkdirSync(state);
      const remount = (mode: 'ro' | 'rw') => execFileSync('mount', ['-o', `remount,${mode}`, state]);
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4m,mode=0700', 'tmpfs', state]);
      const service = await startServe(home, ['--seed', 'me.bot', '--data', 'memory', '--clock', 'controlled']);
      const inside = (...words: string[]) =>
        home.asp([...words, '--retries', '0'], { environment: { XDG_STATE_HOME: state } });
      try {
        expect(await inside('login', '@me.bot', '--yes')).toMatchObject({ status: 0 });
        remount('ro');
        expect(await inside('session', 'list')).toMatchObject({ status: 0 });
        expect(await home.asp(['serve', 'clock', 'advance', '16m'])).toMatchObject({ status: 0 });
        for (let times = 0; times < 2; times += 1) {
          const { status, stderr } = await inside('session', 'list');
          expect({ status, stderr }).toMatchObject({ status: 4, stderr: expect.stringContaining('(EROFS)') });
          expect(stderr).toContain('asp must be able to read and write that file. In a sandbox, allow its folder.');
        }
        remount('rw');
        expect(await inside('session', 'list')).toMatchObject({ status: 0 });
      } finally {
        await service.stop();
        execFileSync('umount', ['-l', state], { stdio: 'ignore' });
        await home.dispose();
      }
    });
  },
);

describe.skipIf(reason !== undefined)(`a command whose output goes to a full disk ${reason ?? ''}`, () => {
  let home: Home;
  let disk: string;
  let small: Home;
  let service: ServiceProcess;
  let session: string;
  let attachment: string;

  beforeAll(async () => {
    home = createHome();
    service = await startServe(home, ['--seed', 'me.bot,you.bot']);
    await home.run(['login', '@me.bot', '--yes']);
    session = (await home.asp(['session', 'create', '@you.bot'])).stdout.trim();
    writeFileSync(join(home.directory, 'large.txt'), 'x'.repeat(100_000));
    expect((await home.asp(['send', session, 'y'.repeat(20_000), '--file', 'large.txt'])).status).toBe(0);
    const { stdout } = await home.asp(['session', 'events', session, '--after', '0', '--type', 'message']);
    [attachment = ''] = /att_\w+/.exec(stdout) ?? [];
    expect(await home.asp(['serve', 'backup', 'backup.tar'])).toMatchObject({ status: 0 });
    disk = join(home.directory, 'disk');
    mkdirSync(disk);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k,mode=0700', 'tmpfs', disk]);
    mkdirSync(join(disk, 'data'), { mode: 0o700 });
    fill(join(disk, 'filler'));
    small = createHome({ HOME: disk, XDG_CONFIG_HOME: join(disk, 'config'), XDG_STATE_HOME: join(disk, 'state') });
  });
  afterAll(async () => {
    await service.stop();
    await small.dispose();
    execFileSync('umount', ['-l', disk], { stdio: 'ignore' });
    await home.dispose();
  });

  const filesOn = (): string[] =>
    readdirSync(disk, { recursive: true, withFileTypes: true })
      .filter(
        (entry) => entry.isFile() && entry.name !== 'filler' && statSync(join(entry.parentPath, entry.name)).size > 0,
      )
      .map(({ name }) => name);

  it.each<{ words: (disk: string) => string[]; names: string; elsewhere?: boolean; isOutput?: boolean }>([
    { words: () => ['profile', 'add', 'w', '--base-url', 'https://asp.example/v1'], names: 'config.json' },
    { words: () => ['alias', 'set', 'up', '--', 'whoami'], names: 'config.json' },
    { words: () => ['login', '@you.bot', '--yes', '--store', 'file'], names: '.json' },
    { words: () => ['skill', 'install', 'claude-code'], names: 'connect.json' },
    {
      words: (at) => ['session', 'export', session, '--output', join(at, 'talk.jsonl')],
      names: 'talk.jsonl',
      elsewhere: true,
      isOutput: true,
    },
    { words: () => ['completion', 'bash', '--install'], names: 'completions/asp', isOutput: true },
    {
      words: (at) => ['doctor', '--bundle', join(at, 'bundle.json')],
      names: 'bundle.json',
      elsewhere: true,
      isOutput: true,
    },
    { words: (at) => ['serve', 'backup', join(at, 'b.tar')], names: 'disk/b.tar.', elsewhere: true },
    {
      words: (at) => ['serve', 'restore', 'backup.tar', '--data', join(at, 'data')],
      names: 'disk/data.',
      elsewhere: true,
    },
    {
      words: (at) => ['attachment', 'download', attachment, '--output', join(at, 'a.txt')],
      names: 'a.txt',
      elsewhere: true,
      isOutput: true,
    },
    {
      words: (at) => ['tail', session, '--no-follow', '--after', '0', '--cursor-file', join(at, 'c.json')],
      names: 'c.json',
      elsewhere: true,
    },
  ])(
    'names the file and leaves nothing half written: $names',
    async ({ words, names, elsewhere = false, isOutput = false }) => {
      const runtime = home.environment['XDG_RUNTIME_DIR'];
      const ended = elsewhere
        ? await home.asp(words(disk))
        : await small.asp(words(disk), { environment: { XDG_RUNTIME_DIR: runtime } });
      expect(ended.status).not.toBe(0);
      expect(ended.status === 1).toBe(isOutput);
      expect(ended.stderr).toMatch(/^error: /m);
      expect(ended.stderr).toContain(names);
      expect(ended.stderr).toContain('the disk is full');
      expect(ended.stderr).not.toContain('change may have been made');
      expect(filesOn()).toEqual([]);
      expect(existsSync(join(disk, 'data', '.restoring'))).toBe(false);
    },
  );
});

describe.skipIf(reason !== undefined)(`asp run whose progress goes to a full disk ${reason ?? ''}`, () => {
  let home: Home;
  let service: ServiceProcess;
  let me: Actor;
  let disk: string;
  const agents: Running[] = [];

  beforeAll(async () => {
    home = createHome();
    service = await startServe(home, ['--limits', 'off', '--seed', 'demo.you,demo.bot']);
    expect(await home.run(['login', '@demo.bot', '--yes'])).toMatchObject({ status: 0 });
    me = await actorIn(home, service.url, '@demo.you');
    disk = join(home.directory, 'disk');
    mkdirSync(disk);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k,mode=0700', 'tmpfs', disk]);
  });
  afterEach(() => stopAll(agents));
  afterAll(async () => {
    await service.stop();
    execFileSync('umount', ['-l', disk], { stdio: 'ignore' });
    await home.dispose();
  });

  const program = fileURLToPath(new URL('../support/programs/line-handler.py', import.meta.url));
  const lines = ['--exec', `python3 ${program}`, '--lines'];
  const filling = 'dd if=/dev/zero of=$DISK/filler bs=4k 2>$DISK/said';
  const shell = ['--exec', `${filling}; echo fine`];

  it.each([
    { when: 'before a message', words: ['--exec', 'echo fine'], text: 'hello', isEarly: true, file: '' },
    { when: 'while its command runs', words: shell, text: 'hello', isEarly: false, file: '.limits' },
    { when: 'before a message', words: lines, text: 'reply {"content": "fine"}', isEarly: true, file: '' },
  ])(
    '$when ($words.0 $words.2): it names the file and exits with 2, and the next run leaves one reply',
    async (given) => {
      const { words, text, isEarly, file } = given;
      for (const name of ['progress.json', 'filler']) rmSync(join(disk, name), { force: true });
      const progress = join(disk, 'progress.json');
      const run = (): Running => {
        const line = ['run', '-a', '@demo.bot', '--cursor-file', progress, ...words, '--since', '1m'];
        const agent = home.start(line, { environment: { DISK: disk } });
        agents.push(agent);
        return agent;
      };
      const first = run();
      await first.until('stderr', /Answering as/);
      const sid = await me.mustCreate({ invite: ['@demo.bot'] });
      await until('it joins', async () => {
        const { participants } = (await me.mustRead(sid)) as { participants: { handle: string; status: string }[] };
        return participants.some(({ handle, status }) => handle === '@demo.bot' && status === 'joined');
      });
      // A file that is being replaced just then would leave room.
      await until('the progress rests', async () => {
        const before = readFileSync(progress, 'utf8');
        await setTimeout(500);
        return before.includes(sid) && readFileSync(progress, 'utf8') === before;
      });
      if (isEarly) fill(join(disk, 'filler'));
      const { id } = await me.mustSend(sid, text);
      const { status, stderr } = await first.ended;
      expect(status).toBe(2);
      expect(stderr).toContain(join(disk, `progress${file}.json`));
      expect(stderr).toContain('ENOSPC');

      rmSync(join(disk, 'filler'));
      const next = run();
      await next.until('stdout', new RegExp(`"message_id":"${id}".*"(replied|answered)"`));
      next.kill('SIGINT');
      expect(await next.ended).toMatchObject({ status: 0 });
      const events = (await me.mustReplay(sid)) as readonly { type: string; payload: { sender: string } }[];
      const replies = events.filter(
        ({ type, payload }) => type === 'session.message' && payload.sender === '@demo.bot',
      );
      expect(replies).toHaveLength(1);
    },
  );

  it('if the hops of a chain cannot be written, no program gets the message', async () => {
    mkdirSync(join(disk, 'chain.hops'), { recursive: true });
    const words = ['run', '-a', '@demo.bot', '--cursor-file', join(disk, 'chain.json'), ...lines];
    const run = home.start(words);
    agents.push(run);
    await run.until('stderr', /Answering as/);
    await me.mustCreate({ invite: ['@demo.bot'], initial_message: { content: 'look' } });
    const { status, stdout, stderr } = await run.ended;
    expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringContaining('chain.hops') });
    // A reply to an earlier message may be reported as answered.
    expect(stdout).not.toMatch(/"outcome":"(replied|failed|silent)"/);
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
