import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { PEER, SESSION_ID } from '../support/canned-replies.js';
import { type CannedService, startCannedService } from '../support/canned-service.js';
import { createHome, type Ended, type Home, missing } from './program.js';

/**
 * Runs a command with stdout, or both streams, on a terminal of that width, and passes every byte through unchanged.
 */
const PTY = `
import fcntl, os, pty, struct, subprocess, sys, termios
width, streams = int(sys.argv[1]), sys.argv[2]
master, slave = pty.openpty()
settings = termios.tcgetattr(slave)
settings[1] &= ~termios.OPOST
termios.tcsetattr(slave, termios.TCSANOW, settings)
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', 24 if width else 0, width, 0, 0))
child = subprocess.Popen(sys.argv[3:], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave if streams == 'both' else None)
os.close(slave)
while True:
    try:
        data = os.read(master, 65536)
    except OSError:
        break
    if not data:
        break
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
sys.exit(child.wait())
`;

const noPython = missing('python3', 'bash');
const ESCAPE = '\u001b';
const TERMINAL = { TERM: 'xterm-256color', COLORTERM: 'truecolor' };

describe.skipIf(noPython !== undefined)('At a terminal and in a pipe,', () => {
  let home: Home;
  let service: CannedService;
  beforeAll(async () => {
    service = await startCannedService();
    home = createHome({ ASP_PROFILE: service.baseUrl, ASP_TOKEN: 'a-token', ASP_WS_TOKEN: 'a-socket-token' });
  });
  afterAll(async () => {
    await home.dispose();
    await service.close();
  });

  const inPipe = (words: string, environment: NodeJS.ProcessEnv = {}): Promise<Ended> =>
    home.asp(words.split(' '), { environment });
  const atTerminal = (
    words: string,
    environment: NodeJS.ProcessEnv = {},
    { width = 80, streams = 'out' }: { width?: number; streams?: 'out' | 'both' } = {},
  ): Promise<Ended> =>
    home.spawn('python3', ['-c', PTY, String(width), streams, 'asp', ...words.split(' ')], {
      environment: { ...TERMINAL, ...environment },
    }).ended;

  it.each([
    `tail ${SESSION_ID} -n 9 -c 4`,
    `tail ${SESSION_ID} --no-follow`,
    `session events ${SESSION_ID} --after 0 --text`,
    `session export ${SESSION_ID} --format md`,
    `send ${PEER} hello`,
    `send ${SESSION_ID} hello`,
    `agent card ${PEER}`,
    'session list --json',
    'session list --jsonl',
    'commands --json',
    'schema session show',
    'completion bash',
    'whoami',
  ])('asp %s prints the same bytes', async (words) => {
    const [piped, shown] = await Promise.all([inPipe(words), atTerminal(words, { NO_COLOR: '1' }, { width: 20 })]);
    expect(shown).toMatchObject({ status: 0, stdout: piped.stdout });
    expect(piped.stdout.length).toBeGreaterThan(0);
  });

  it('a list is a table for a person and complete tab-separated values for a program', async () => {
    const [piped, shown] = await Promise.all([inPipe('session list'), atTerminal('session list')]);
    expect(piped.stdout.split('\n')[0]?.split('\t')[0]).toBe(SESSION_ID);
    expect(shown.stdout.split('\n')[0]).toMatch(/SESSION.*STATE/);
    expect(shown.stdout).toContain(SESSION_ID);
  });

  const COLORS: readonly [words: string, environment: NodeJS.ProcessEnv, pipe: boolean, terminal: boolean][] = [
    ['session list', {}, false, true],
    ['session list', { NO_COLOR: '1' }, false, false],
    ['session list', { NO_COLOR: '1', FORCE_COLOR: '1' }, false, false],
    [`session show ${SESSION_ID}`, { FORCE_COLOR: '1' }, true, true],
    [`session show ${SESSION_ID}`, { CLICOLOR_FORCE: '1' }, true, true],
    ['session list', { FORCE_COLOR: '1' }, false, true],
    ['session list', { CLICOLOR: '0' }, false, false],
    ['session list', { TERM: 'dumb' }, false, false],
    ['session list --color never', { FORCE_COLOR: '1' }, false, false],
    ['session list --color always', { NO_COLOR: '1' }, false, true],
    ['session list --json --color always', { FORCE_COLOR: '1' }, false, false],
    [`tail ${SESSION_ID} --no-follow --color always`, { FORCE_COLOR: '1' }, false, false],
  ];
  it.each(COLORS)(
    'asp %s with %j is colored in a pipe: %s, at a terminal: %s',
    async (words, environment, pipe, terminal) => {
      const [piped, shown] = await Promise.all([inPipe(words, environment), atTerminal(words, environment)]);
      expect(piped.stdout.includes(ESCAPE)).toBe(pipe);
      expect(shown.stdout.includes(ESCAPE)).toBe(terminal);
    },
  );

  it('color of an error follows stderr, not stdout', async () => {
    const words = 'session show nonsense';
    const { stderr } = await atTerminal(words);
    expect(stderr).not.toContain(ESCAPE);
    expect((await atTerminal(words, {}, { streams: 'both' })).stdout).toContain(ESCAPE);
    expect((await inPipe(`${words} --color always`)).stderr).toContain(ESCAPE);
    expect((await inPipe(`${words} --color always --json`)).stderr).not.toContain(ESCAPE);
  });

  it.each([0, 1, 7])('a terminal %i columns wide is supported', async (width) => {
    for (const words of ['session list', 'help', `session show ${SESSION_ID}`, 'session show nonsense']) {
      const { status, stdout } = await atTerminal(words, {}, { width, streams: 'both' });
      expect({ words, status }).toEqual({ words, status: words.endsWith('nonsense') ? 2 : 0 });
      expect(stdout).not.toMatch(/NaN|Infinity|at .*\.c?js/);
    }
  });

  it.each([
    `session list`,
    `session events ${SESSION_ID}`,
    `session export ${SESSION_ID}`,
    'commands --json',
    'completion zsh',
    'help',
  ])('asp %s exits silently with 0 when its reader is gone', async (words) => {
    const { stdout, stderr } = await home.shell(
      `asp ${words} | true; echo "\${PIPESTATUS[0]}"; asp ${words} >&-; echo $?`,
    );
    expect({ stdout, stderr }).toEqual({ stdout: '0\n0\n', stderr: '' });
  });

  it.each([
    ['shows that something is happening', [], true],
    ['shows it in no way that a reader of the screen could not follow, with --accessible', ['--accessible'], false],
    ['is as still with --quiet', ['--quiet'], false],
  ] as const)('a slow upload %s', async (_, more, isMoving) => {
    await home.shell('echo text > note.txt');
    service.delayMs = 1500;
    const { stdout, status } = await atTerminal(
      ['attachment upload note.txt', ...more].join(' '),
      {},
      { streams: 'both' },
    );
    service.delayMs = 0;
    expect(status).toBe(0);
    expect(stdout.includes('\u001b[?25l') || stdout.includes('\r')).toBe(isMoving);
  });

  it('a spinner on a terminal that does not know its width ends with its work', async () => {
    await home.shell('echo text > note.txt');
    service.delayMs = 1500;
    const { stdout, status } = await atTerminal('attachment upload note.txt', {}, { width: 0, streams: 'both' });
    service.delayMs = 0;
    expect(status).toBe(0);
    expect(stdout).toContain('uploading note.txt');
    expect(stdout.length).toBeLessThan(20_000);
  });
});
