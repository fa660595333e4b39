import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { Actor } from '../support/actors.js';
import { openBrowser } from '../support/browser.js';
import { startCannedService } from '../support/canned-service.js';
import { request } from '../support/http.js';
import { actorIn } from '../support/operator.js';
import { signUpAndAllow } from '../support/person.js';
import { until } from '../support/until.js';
import {
  noWindows,
  startWindows,
  type Windows,
  type WindowsEnd,
  type WindowsOptions,
  type WindowsUser,
} from '../support/windows.js';
import { createHome, type Home, json, jsonLines, type ServiceProcess, startServe } from './program.js';

const ANNA = '@anna.bot';
const ALICE = '@alice.bot';

interface Event {
  readonly type: string;
  readonly sequence: number;
  readonly payload: { readonly content?: unknown; readonly sender?: string };
}

const contentsOf = (events: readonly unknown[]): unknown[] =>
  (events as Event[]).flatMap(({ type, payload }) => (type === 'session.message' ? [payload.content] : []));

/** Answers the message on its standard input, and notes what it got. */
const ANSWERING = `
let text = '';
process.stdin.on('data', (part) => { text += part; }).on('end', () => {
  const { ASP_SEQUENCE, ASP_ACTOR } = process.env;
  const { payload } = JSON.parse(text);
  require('fs').appendFileSync('answered.log', JSON.stringify([ASP_SEQUENCE, ASP_ACTOR, payload.content]) + '\\n');
  console.log('I read: ' + payload.content);
});
`;

// The service runs on Linux, and asp under the Node.js of Windows. Both have the same loopback addresses.
describe.skipIf(noWindows !== undefined)(`asp on Windows ${noWindows ?? ''}`, () => {
  let home: Home;
  let service: ServiceProcess;
  let windows: Windows;
  let anna: WindowsUser;
  let alice: Actor;

  const login = async (user: WindowsUser, username: string, options: WindowsOptions = {}): Promise<WindowsEnd> => {
    const started = user.start(['login', '--no-browser'], options);
    const [, url = ''] = await started.until('stderr', /^\s*(http:\S+)$/m);
    const person = { username, password: 'correct horse battery', agentName: 'bot', handle: `@${username}.bot` };
    const { answer } = await signUpAndAllow(openBrowser(), url, person);
    await request(answer.headers['location'] ?? '');
    return started.ended;
  };
  /** Starts a session of anna with alice, who joins it. */
  const meet = async (text = 'hello'): Promise<string> => {
    const { stdout } = await anna.asp(['send', ALICE, text]);
    const sid = stdout.trim();
    await alice.mustJoin(sid);
    return sid;
  };
  const heard = async (sid: string): Promise<unknown[]> => contentsOf(await alice.mustReplay(sid));
  const node = (file: string): string => `"${windows.node}" ${file}`;

  beforeAll(async () => {
    home = createHome();
    [service, windows] = await Promise.all([
      startServe(home, ['--seed', 'demo.you,alice.bot', '--limits', 'off']),
      startWindows(),
    ]);
    anna = windows.createUser('anna', { ASP_PROFILE: service.url });
    alice = await actorIn(home, service.url, ALICE);
    writeFileSync(join(anna.home, 'answering.js'), ANSWERING);
    const { status, stderr } = await login(anna, 'anna');
    // Wine has a Credential Manager, whose interface is that of Windows.
    expect({ status, stderr }).toEqual({ status: 0, stderr: expect.stringContaining('stored in the keychain') });
    expect(await anna.asp(['allowlist', 'add', ALICE])).toMatchObject({ status: 0 });
  });
  afterAll(async () => {
    await windows?.stop();
    await service?.stop();
    await home?.dispose();
  });

  it('prints its version and its help, and ends with the documented exit codes', async () => {
    expect(await anna.asp(['--version'])).toEqual({ status: 0, stdout: '0.1.0\n', stderr: '' });
    expect((await anna.asp(['send', '--help'])).stdout).toContain('asp send');
    expect(await anna.asp(['nonsense'])).toMatchObject({ status: 2, stdout: '' });
    const nobody = windows.createUser('nobody', { ASP_PROFILE: service.url });
    expect(await nobody.asp(['whoami'])).toMatchObject({ status: 4 });
  });

  it('keeps its files where Windows keeps those of a user, and a login in a file where there is no keychain', async () => {
    const bert = windows.createUser('bert', { ASP_PROFILE: service.url, ASP_TOKEN_STORE: 'file' });
    expect((await bert.asp(['config', 'path'])).stdout).toBe(
      'C:\\users\\bert\\AppData\\Roaming\\asp-cli\\Config\\config.json\n',
    );
    expect(await login(bert, 'bert')).toMatchObject({ status: 0, stdout: '@bert.bot\n' });
    expect(await bert.asp(['whoami'])).toMatchObject({ status: 0, stdout: '@bert.bot\n' });
    expect(readdirSync(bert.home).sort()).toEqual(['AppData', 'bin']);
    const local = join(bert.home, 'AppData/Local/asp-cli/State');
    const kept = readdirSync(local, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.json'));
    expect(kept.length).toBeGreaterThan(0);
    const { stderr } = await bert.asp(['doctor']);
    expect(stderr).not.toContain('chmod');
    expect(await bert.asp(['logout'])).toMatchObject({ status: 0 });
    expect(await bert.asp(['whoami'])).toMatchObject({ status: 4 });
  });

  it('sends an argument and standard input as they are, with quotes, percent signs, line ends of Windows and emoji', async () => {
    const said = 'Grüße & "quotes" %PATH% ^ 😀';
    const sid = await meet(said);
    const input = 'first line\r\n日本 😀\r\n';
    expect(await anna.asp(['send', sid, '-'], { input })).toMatchObject({ status: 0 });
    expect(await anna.asp(['send', sid, 'over', '--end'])).toMatchObject({ status: 0 });
    expect(await heard(sid)).toEqual([said, 'first line\r\n日本 😀', 'over']);
    const { stdout } = await anna.asp(['session', 'list', '--state', 'ended', '--json']);
    expect(json<{ items: { id: string }[] }>(stdout).items.map(({ id }) => id)).toContain(sid);
    const filtered = await anna.asp(['session', 'show', sid, '--jq', '.state']);
    expect(filtered).toMatchObject({ status: 0, stdout: 'ended\n' });
  });

  it('asp tail ends when its reader leaves, and continues from its cursor file after it was killed', async () => {
    const sid = await meet('1');
    const words = ['tail', sid, '--type', 'message', '--text', '--cursor-file', 'cursor.json'];
    const killed = anna.start(words);
    await killed.until('stdout', /1\n/);
    await alice.mustSend(sid, '2');
    await killed.until('stdout', /2\n/);
    const cursor = join(anna.home, 'cursor.json');
    /** False while the file is being replaced. */
    const isAt = (sequence: number) => async () => {
      try {
        return JSON.parse(readFileSync(cursor, 'utf8')).sessions[sid] === sequence;
      } catch {
        return false;
      }
    };
    const last = (await alice.mustReplay(sid)).length;
    await until('the cursor', isAt(last));
    killed.kill();
    await killed.ended;
    await alice.mustSend(sid, '3');
    const next = anna.start(words);
    await next.until('stdout', /3\n/);
    expect(next.stdout()).toBe('3\n');
    next.stopReading();
    // A pipe may still take the first line that no one reads.
    let isOver = false;
    const ended = next.ended.finally(() => {
      isOver = true;
    });
    for (let number = 4; !isOver && number < 50; number += 1) {
      await alice.mustSend(sid, String(number));
      await setTimeout(200);
    }
    expect(await ended).toMatchObject({ status: 0, stderr: '' });
  });

  it('asp tail --exec runs a command of cmd.exe for each event', async () => {
    const sid = await meet('to be read');
    const line = `echo %ASP_ACTOR% %ASP_SEQUENCE% & ${node('answering.js')}`;
    const { status, stdout } = await anna.asp(['tail', sid, '--type', 'message', '--no-follow', '--exec', line]);
    expect(status).toBe(0);
    expect(stdout.split(/\r?\n/).map((one) => one.trimEnd())).toEqual([`${ANNA} 2`, 'I read: to be read', '']);
  });

  it('asp run answers with what a command prints, and alone: a second run is refused, until the first is killed', async () => {
    const sid = await meet();
    const words = ['run', '--exec', node('answering.js'), '--from', 'anyone', '--cursor-file', 'run.json'];
    const first = anna.start(words);
    await first.until('stderr', /Answering as @anna\.bot/);
    await alice.mustSend(sid, 'Größe? 😀');
    const isAnswered = (text: string) => async () => (await heard(sid)).includes(`I read: ${text}`);
    await until('the answer', isAnswered('Größe? 😀'));
    expect((await anna.asp(words)).status).not.toBe(0);
    first.kill();
    await first.ended;
    await alice.mustSend(sid, 'still there?');
    const second = anna.start(words);
    await until('the second answer', isAnswered('still there?'));
    const answers = (await heard(sid)).filter((text) => String(text).startsWith('I read'));
    expect(answers).toEqual(['I read: Größe? 😀', 'I read: still there?']);
    second.kill();
    await second.ended;
  });

  it('Ctrl-C in a console ends a tail with 130, and asp chat sends what is typed', async () => {
    const sid = await meet('look here');
    const tail = read(anna.console(['tail', sid, '--text']));
    await tail.until(/look here/);
    tail.write('\u0003');
    expect(await tail.ended).toBe(130);
    const chat = read(anna.console(['chat', sid]));
    await chat.until(/look here/);
    chat.write('typed here\r');
    await until('the message', async () => (await heard(sid)).includes('typed here'));
    await alice.mustSend(sid, 'and read there');
    await chat.until(/and read there/);
    chat.write('\u0003');
    await chat.ended;
  });

  it('uploads a file of a Windows path, and downloads it into a folder of one', async () => {
    const sid = await meet();
    const bytes = Buffer.from('a,b\r\n1,2\r\n');
    mkdirSync(join(anna.home, 'My files'));
    writeFileSync(join(anna.home, 'My files', 'table.csv'), bytes);
    const sent = await anna.asp(['send', sid, 'the table', '--file', 'C:\\users\\anna\\My files\\table.csv']);
    expect(sent).toMatchObject({ status: 0 });
    const { stdout } = await anna.asp(['attachment', 'list', sid, '--jq', '.items[].id']);
    const down = await anna.asp(['attachment', 'download', stdout.trim(), '--dir', '.\\in box']);
    expect(down).toMatchObject({ status: 0, stdout: 'C:\\users\\anna\\in box\\table.csv\n' });
    expect(readFileSync(join(anna.home, 'in box', 'table.csv'))).toEqual(bytes);
  });

  it('writes nothing outside the folder of a download, to no device and to no stream of a file, whatever a service calls it', async () => {
    const hostile = await startCannedService();
    const environment = { ASP_PROFILE: hostile.baseUrl, ASP_TOKEN: 'some-token' };
    const before = filesOf(anna.home, 'downloads');
    // One program downloads all of them, because each start under Wine costs a third of a second of CPU time.
    const asked = (): number => hostile.received.filter((one) => one === 'getAttachment').length;
    Object.defineProperty(hostile, 'text', { get: () => HOSTILE_NAMES[asked()]?.[0] ?? '' });
    const ids = HOSTILE_NAMES.map((_, at) => `att_${String(at).padStart(26, '0')}`);
    const words = ['attachment', 'download', ...ids, '--dir', 'downloads', '--force'];
    const { status, stdout } = await anna.asp(words, { environment });
    expect({ status, paths: stdout.split('\n') }).toEqual({
      status: 0,
      paths: [...HOSTILE_NAMES.map(([, written]) => `C:\\users\\anna\\downloads\\${written}`), ''],
    });
    const names = HOSTILE_NAMES.map(([, written]) => written);
    expect(readdirSync(join(anna.home, 'downloads')).sort()).toEqual([...new Set(names)].sort());
    expect(filesOf(anna.home, 'downloads')).toEqual(before);
    await hostile.close();
  });

  it('keeps every change of the settings when several programs make them at once, and waits for one that reads them', async () => {
    const names = ['one', 'two', 'three', 'four'];
    const ends = await Promise.all(names.map((name) => anna.asp(['alias', 'set', name, '--', 'whoami'])));
    expect(ends.map(({ status, stderr }) => (status === 0 ? 0 : stderr))).toEqual([0, 0, 0, 0]);
    const file = 'AppData/Roaming/asp-cli/Config/config.json';
    expect(Object.keys(json<{ aliases: object }>(readFileSync(join(anna.home, file), 'utf8')).aliases).sort()).toEqual(
      names.toSorted(),
    );
    expect(await anna.asp(['two'])).toMatchObject({ status: 0, stdout: `${ANNA}\n` });
    // A rename onto a file that is open without FILE_SHARE_DELETE fails; a batch file opens its output so.
    const reader = anna.spawn(
      'cmd.exe',
      ['/d', '/s', '/c', `"(echo open& ping -n 2 127.0.0.1 >NUL)<${file.replaceAll('/', '\\')}"`],
      {
        isVerbatim: true,
      },
    );
    await reader.until('stdout', /open/);
    expect(await anna.asp(['alias', 'set', 'five', '--', 'whoami'])).toMatchObject({ status: 0 });
    expect(readdirSync(join(anna.home, file, '..')).filter((name) => name.endsWith('.tmp'))).toEqual([]);
    await reader.ended;
  });

  it('asp-<name>.cmd on the PATH is the command asp <name>, and gets its arguments unchanged', async () => {
    writeFileSync(
      join(anna.home, 'bin', 'args.js'),
      'console.log(JSON.stringify(process.argv.slice(2))); process.exit(7);',
    );
    writeFileSync(join(anna.home, 'bin', 'asp-deploy.cmd'), `@ECHO off\r\n"${windows.node}" "%~dp0\\args.js" %*\r\n`);
    // Not a variable between percent signs: the shell of Wine 8 expands it, in spite of what keeps that of Windows from it.
    const args = ['--json', 'a b', '', 'x&echo injected', 'say "hi"&echo injected', '^|<>()!', 'ü😀'];
    const { status, stdout } = await anna.asp(['deploy', ...args]);
    expect({ status, args: json<unknown>(stdout) }).toEqual({ status: 7, args });
    expect(await anna.asp(['deploy', 'two\nlines'])).toMatchObject({ status: 2, stdout: '' });
    expect((await anna.asp(['__complete', 'powershell', '--', 'depl'])).stdout).toContain('deploy');
  });

  it('asp connect names a program that starts without a shell, and its tools speak JSON lines', async () => {
    const { stdout } = await anna.asp(['connect', 'claude-code', '--json']);
    const { files } = json<{ files: { path: string }[] }>(stdout);
    const folder = 'C:\\users\\anna\\.claude\\skills\\asp\\';
    expect(files.every(({ path }) => path.startsWith(folder))).toBe(true);
    const plugin = join(anna.home, '.claude/skills/asp/.claude-plugin/plugin.json');
    const { mcpServers } = json<{ mcpServers: { asp: { command: string; args: string[] } } }>(
      readFileSync(plugin, 'utf8'),
    );
    const tools = anna.spawn(mcpServers.asp.command, mcpServers.asp.args, { input: { isOpen: true } });
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } };
    for (const message of [
      { id: 1, method: 'initialize', params },
      { method: 'notifications/initialized' },
      { id: 2, method: 'tools/list' },
    ])
      tools.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\r\n`);
    await tools.until('stdout', /"id":2.*\n/);
    tools.end();
    const ended = await tools.ended;
    expect(ended.status).toBe(0);
    expect(ended.stdout).not.toContain('\r');
    expect(jsonLines<{ id: number }>(ended.stdout).map(({ id }) => id)).toEqual([1, 2]);
    expect(await anna.asp(['disconnect', 'claude-code'])).toMatchObject({ status: 0 });
    expect(existsSync(join(anna.home, '.claude'))).toBe(false);
  });

  it('opens an editor that is a batch file in a folder with spaces, and takes its text', async () => {
    const sid = await meet();
    mkdirSync(join(anna.home, 'My tools'));
    writeFileSync(join(anna.home, 'My tools', 'edit.cmd'), '@echo written in an editor>%1\r\n');
    const EDITOR = '"C:\\users\\anna\\My tools\\edit.cmd"';
    const sent = await anna.asp(['send', sid, '--edit'], { environment: { EDITOR } });
    expect(sent).toMatchObject({ status: 0 });
    expect((await heard(sid)).map((one) => String(one).trim())).toContain('written in an editor');
  });

  it('opens the browser that BROWSER names', async () => {
    writeFileSync(join(anna.home, 'browser.js'), "require('fs').writeFileSync('opened.txt', process.argv[2]);");
    const BROWSER = `${windows.node} C:\\users\\anna\\browser.js`;
    const started = anna.start(['login', '--timeout', '20s'], { environment: { BROWSER } });
    const [, url = ''] = await started.until('stderr', /^\s*(http:\S+)$/m);
    const file = join(anna.home, 'opened.txt');
    await until('the browser', async () => existsSync(file) && readFileSync(file, 'utf8') === url);
    started.kill();
    await started.ended;
  });

  it('does not hand a secret to a command, whatever the case of its name', async () => {
    const sid = await meet();
    const environment = { asp_client_secret: 'hidden', Pgpassword: 'hidden' };
    const words = ['tail', sid, '--no-follow', '--type', 'message', '--exec', 'set'];
    const { status, stdout } = await anna.asp(words, { environment });
    expect(status).toBe(0);
    expect(stdout).toContain('ASP_SESSION_ID');
    expect(stdout).not.toContain('hidden');
  });

  it('says how to install completions for PowerShell, whose profile only PowerShell knows', async () => {
    const { status, stderr } = await anna.asp(['completion', 'powershell', '--install']);
    expect(status).toBe(2);
    expect(stderr).toContain('asp completion powershell >> $PROFILE');
  });
});

/** What a service calls a file, and the name that it gets. */
const HOSTILE_NAMES = [
  ['..\\..\\evil.txt', 'evil.txt'],
  ['../../evil.txt', 'evil.txt'],
  ['C:\\users\\anna\\AppData\\evil.txt', 'evil.txt'],
  ['\\\\server\\share\\evil.txt', 'evil.txt'],
  ['\\\\?\\C:\\evil.txt', 'evil.txt'],
  ['C:evil.txt', 'C_evil.txt'],
  ['a.txt:hidden', 'a.txt_hidden'],
  ['a.txt::$DATA', 'a.txt_DATA'],
  ['CON', '_CON'],
  ['nul.txt', '_nul.txt'],
  ['COM1 .txt', '_COM1 .txt'],
  ['lpt¹', '_lpt¹'],
  ['CONIN$', 'CONIN_'],
  ['dots...', 'dots'],
  ['spaces.txt  ', 'spaces.txt'],
  ['..\\..', 'file'],
  ['a<b>c|d?e*"f.txt', 'a_b_c_d_e_f.txt'],
] as const;

/** The paths of all files in a folder that are not in a folder of this name. */
function filesOf(folder: string, without: string): string[] {
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  // Compiled code and records of logins come and go.
  return paths.filter((path) => !path.split('/').includes(without) && !path.includes('asp-cli')).sort();
}

/** The screen and the end of a program in a console. */
function read(console: ChildProcess): {
  readonly ended: Promise<number | null>;
  until(pattern: RegExp): Promise<unknown>;
  write(text: string): void;
} {
  let screen = '';
  console.stdout?.on('data', (chunk: Buffer) => {
    screen += chunk.toString('utf8');
  });
  return {
    ended: once(console, 'exit').then(([status]) => status as number | null),
    until: (pattern) =>
      until(`${pattern} on the screen`, async () => pattern.test(screen), 15_000).catch((error: Error) => {
        throw new Error(`${error.message}: ${JSON.stringify(screen)}`);
      }),
    write: (text) => void console.stdin?.write(text),
  };
}
