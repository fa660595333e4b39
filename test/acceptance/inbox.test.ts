import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { createHome, type Home, missing, type ServiceProcess, startServe } from './program.js';
import { openTmux } from './tmux.js';

const COLOR = '\u001b[';

describe.skipIf(missing('tmux') !== undefined)('asp inbox at a terminal', () => {
  let home: Home;
  let service: ServiceProcess;
  let id: string;
  beforeAll(async () => {
    home = createHome();
    service = await startServe(home, ['--seed', 'demo.you,alice.bot,bob.bot', '--limits', 'off']);
    for (const handle of ['demo.you', 'alice.bot', 'bob.bot'])
      expect((await home.run(['login', handle, '--yes'])).status).toBe(0);
    id = await print('alice.bot', 'session', 'create', 'demo.you');
    await print('demo.you', 'session', 'join', id);
    await print('alice.bot', 'send', id, 'The build of the third release is done, and every test passed: ship it?');
    await print('bob.bot', 'session', 'create', 'demo.you', '--topic', 'lunch');
  });
  afterAll(async () => {
    await service.stop();
    await home.dispose();
  });

  /** Runs a command as an agent and returns what it prints. */
  async function print(handle: string, ...words: string[]): Promise<string> {
    const { status, stdout, stderr } = await home.run([...words, '-a', handle]);
    expect(status, stderr).toBe(0);
    return stdout.trim();
  }

  /** Runs a line in a terminal of this width, and returns what it shows at the end, as text and with its colors. */
  async function shown(width: number, line: string): Promise<{ text: string; raw: string }> {
    const terminal = await openTmux(home, width, `${line}; echo "exit $?"`);
    try {
      await terminal.shows(/^exit 0$/m);
      return { text: await terminal.screen(), raw: await terminal.escapes() };
    } finally {
      await terminal.close();
    }
  }

  describe.each([80, 40])('at %i columns', (width) => {
    it.each([
      ['in color', '', ''],
      ['with NO_COLOR', 'NO_COLOR=1', ''],
      ['with --accessible', '', '--accessible'],
      ['with NO_COLOR and --accessible', 'NO_COLOR=1', '--accessible'],
    ])('lists what is new, %s, and no line wraps', async (_, variables, option) => {
      const { text, raw } = await shown(width, `env ${variables} asp inbox ${option} -a demo.you`);
      expect(text).toMatch(/^WITH +NEW +LAST +WHEN/);
      expect(text).toMatch(/^@alice\.bot +1 +The buil/m);
      expect(text).toMatch(/^@bob\.bot +invited +lunch/m);
      expect(text).toContain(id);
      // The heading and two rows, whose ids take a line each if there is no room next to them, and the exit code.
      expect(text.trimEnd().split('\n')).toHaveLength(width < 70 ? 6 : 4);
      expect(raw.includes(COLOR)).toBe(variables === '');
    });
  });

  describe.each([80, 40])('then, at %i columns', (width) => {
    it.each(['', 'NO_COLOR=1'])('prints whole messages, which break between words %s', async (variables) => {
      const sent = `One that is far too long for a narrow terminal, number ${width}${variables}.`;
      await print('alice.bot', 'send', id, sent);
      const { text, raw } = await shown(width, `env ${variables} asp inbox read @alice.bot -a demo.you`);
      expect(text.split(/\s+/)).toEqual(expect.arrayContaining(sent.split(' ')));
      for (const line of text.split('\n')) expect(line.length).toBeLessThanOrEqual(width);
      if (variables !== '') expect(raw).not.toContain(COLOR);
    });
  });
});
