import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { createHome, type Home, json, type ServiceProcess, startServe } from './program.js';

const ME = '@demo.you';
const BOT = '@alice.bot';
const README = readFileSync(fileURLToPath(new URL('../../README.md', import.meta.url)), 'utf8');
/** An idle agent receives a message within this time. */
const WAKE_MS = 2_000;

describe('coding agents', () => {
  let home: Home;
  let service: ServiceProcess;

  beforeAll(async () => {
    home = createHome();
    service = await startServe(home, ['--seed', 'demo.you,alice.bot,alice.two', '--limits', 'off', '--port', '0']);
    for (const handle of [ME, '@alice.two', BOT])
      expect(await home.run(['login', handle, '--yes'])).toMatchObject({ status: 0 });
  });
  afterAll(async () => {
    await service.stop();
    await home.dispose();
  });

  it('asp connect writes a monitor and tools that run exactly as written, and asp disconnect removes them', async () => {
    expect(await home.asp(['connect', 'claude-code', '--as', BOT])).toMatchObject({ status: 0 });
    const plugin = join(home.directory, '.claude/skills/asp');
    const [{ command }] = json<[{ command: string }]>(readFileSync(join(plugin, 'monitors/monitors.json'), 'utf8'));
    const monitor = home.spawn('bash', ['-c', `exec ${command}`]);
    await monitor.until('stdout', /^\[asp\] You are @alice\.bot\. /);
    monitor.kill('SIGINT');
    await monitor.ended;
    const { mcpServers } = json<{ mcpServers: { asp: { command: string; args: string[] } } }>(
      readFileSync(join(plugin, '.claude-plugin/plugin.json'), 'utf8'),
    );
    const tools = home.spawn(mcpServers.asp.command, mcpServers.asp.args);
    await tools.until('stderr', /Serving \d+ tools as @alice\.bot/);
    expect(await tools.ended).toMatchObject({ status: 0 });
    expect(await home.asp(['disconnect', 'claude-code'])).toMatchObject({ status: 0 });
    expect(home.exists('.claude')).toBe(false);
  });

  it('asp tail --for-agent wakes a monitor, and the commands in its lines work as printed', async () => {
    await home.asp(['send', BOT, 'while you were away', '-a', ME]);
    const monitor = home.start(['tail', '--for-agent', '--join', '-a', BOT]);
    const [first] = await monitor.until('stdout', /^.*\n/);
    expect(first).toMatch(
      /^\[asp\] You are @alice\.bot\. Unread: 1 invitation\. See them: asp inbox --fence --as @alice\.bot\. /,
    );
    const [, join] = await monitor.until('stdout', /\[asp\] invitation from @demo\.you .* Join: (.*)\.\n/);
    expect(await home.shell(String(join))).toMatchObject({ status: 0 });
    const [waiting, answer] = await monitor.until(
      'stdout',
      /Answer: (asp reply --for-agent sess_\S+ \S+ \S+ "…")\. It says: "while you.*/,
    );
    expect(waiting).toContain('while you were away');
    expect(await home.shell(String(answer).replace('…', 'I am here'))).toMatchObject({ status: 0 });
    const text = `${'long '.repeat(200)}end`;
    const beganAt = Date.now();
    await home.asp(['send', BOT, text, '-a', '@alice.two']);
    const [line, read] = await monitor.until(
      'stdout',
      /\[asp\] message from @alice\.two .*The whole message: (.*)\. It begins: .*/,
    );
    expect(Date.now() - beganAt).toBeLessThan(2 * WAKE_MS);
    expect(line.length).toBeLessThanOrEqual(480);
    expect(line).toContain('relation to you: same owner');
    expect((await home.shell(String(read))).stdout).toContain(text);
    monitor.kill('SIGINT');
    await monitor.ended;
  });
});

describe('the lines of the README', () => {
  /** The lines from an empty home to a message for a connected agent, as the README has them. */
  const LINES = [
    'asp login @demo.you --yes',
    'asp serve agent add @demo.bot && asp login @demo.bot --yes',
    'asp connect claude-code --as demo.bot     # then restart Claude Code',
    'asp send @demo.bot "Is the build green?" --wait --timeout 5m',
  ] as const;

  it('lead from an empty home to the first answer of a connected agent', async () => {
    for (const line of LINES) expect(README.split('\n').map((each) => each.replace(/^\$ /, ''))).toContain(line);
    const home = createHome();
    const beganAt = performance.now();
    // README: asp serve --demo; its port may be in use here.
    const service = await startServe(home, ['--demo']);
    try {
      const type = async (line: string): Promise<string> => {
        const { status, stdout, stderr } = await home.shell(line);
        expect({ line, status, stderr }).toMatchObject({ line, status: 0 });
        return stdout;
      };
      const [login, add, connect, send] = LINES;
      for (const line of [login, add, connect]) await type(line);
      // Claude Code starts the monitor of the plugin, and its model runs the command that a line names.
      const plugin = join(home.directory, '.claude/skills/asp');
      const [{ command }] = json<[{ command: string }]>(readFileSync(join(plugin, 'monitors/monitors.json'), 'utf8'));
      const monitor = home.spawn('bash', ['-c', `exec ${command}`]);
      await monitor.until('stdout', /^\[asp\] You are @demo\.bot\. /);
      const sent = type(send);
      const [, answer = ''] = await monitor.until(
        'stdout',
        /Answer: (asp reply --for-agent sess_\S+.*? "…")\. It says: "Is the build/,
      );
      await type(answer.replace('…', 'Yes, it is green.'));
      expect(await sent).toBe('Yes, it is green.\n');
      const seconds = Math.round(performance.now() - beganAt) / 1000;
      process.stderr.write(`first reply: ${JSON.stringify({ seconds })}\n`);
      // A person needs the rest of the minute to read and type. It takes a few seconds, even on a busy machine.
      expect(seconds).toBeLessThan(60);
      monitor.kill('SIGINT');
      await monitor.ended;
    } finally {
      await service.stop();
      await home.dispose();
    }
  });
});
