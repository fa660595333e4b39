import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import { until } from '../support/until.js';
import { createHome, type Home, jsonLines, missing, type ServiceProcess, startServe } from './program.js';
import { openTmux } from './tmux.js';

let home: Home;
let service: ServiceProcess;
beforeAll(async () => {
  home = createHome();
  service = await startServe(home, ['--seed', 'demo.you,alice.bot,bob.bot,carol.bot', '--limits', 'off']);
  for (const handle of ['demo.you', 'alice.bot', 'bob.bot', 'carol.bot'])
    expect((await home.run(['login', handle, '--yes'])).status).toBe(0);
});
afterAll(async () => {
  await service.stop();
  await home.dispose();
});

const as = (handle: string, ...words: string[]) => home.run([...words, '-a', handle]);
/** Creates a session between demo.you and alice.bot. */
async function openSession(): Promise<string> {
  const id = (await as('demo.you', 'session', 'create', 'alice.bot')).stdout.trim();
  expect((await as('alice.bot', 'session', 'join', id)).status).toBe(0);
  return id;
}
const textsOf = async (id: string): Promise<string[]> =>
  jsonLines<{ content: string }>((await as('alice.bot', 'message', 'list', id, '--jsonl')).stdout).map(
    ({ content }) => content,
  );

describe('asp chat in a pipe', () => {
  it('sends each line, prints what others say, and ends with its input', async () => {
    const id = await openSession();
    await as('alice.bot', 'send', id, 'before');
    const chat = home.start(['chat', id, '-a', 'demo.you'], { input: { isOpen: true } });
    await chat.until('stdout', /@alice\.bot {2}before\n/);
    chat.child.stdin?.write('one\n\ntwo\n');
    await until('both lines arrive', async () => (await textsOf(id)).length === 3);
    await as('alice.bot', 'send', id, 'an answer');
    await chat.until('stdout', /@alice\.bot {2}an answer\n/);
    chat.child.stdin?.end('three');
    const { status, stdout, stderr } = await chat.ended;
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout.match(/one|two|three|before|an answer/g)).toEqual(['before', 'an answer']);
    expect(await textsOf(id)).toEqual(['before', 'one', 'two', 'an answer', 'three']);
    expect((await as('demo.you', 'session', 'show', id, '--json')).stdout).toContain('"state":"active"');
  });

  it('starts a session with the first line if there is none, and continues in it the next time', async () => {
    const chat = async (input: string) => home.asp(['chat', '@bob.bot', '-a', 'demo.you'], { input });
    expect((await chat('hello\n')).status).toBe(0);
    expect((await as('bob.bot', 'session', 'join', '@demo.you')).status).toBe(0);
    expect((await chat('again\n')).stdout).toContain('hello');
    expect((await as('bob.bot', 'message', 'list', '@demo.you')).stdout.match(/hello|again/g)).toEqual([
      'hello',
      'again',
    ]);
  });

  it('ends when the session does', async () => {
    const id = await openSession();
    const chat = home.start(['chat', id, '-a', 'demo.you'], { input: { isOpen: true } });
    await chat.until('stdout', /@alice\.bot joined/);
    await as('alice.bot', 'session', 'end', id);
    const { status, stdout } = await chat.ended;
    expect(status).toBe(0);
    expect(stdout).toMatch(/· @alice\.bot ended the session\n$/);
  });

  it('says that a line was not sent, and why', async () => {
    const id = await openSession();
    await as('alice.bot', 'session', 'end', id);
    const ended = await home.asp(['chat', id, '-a', 'demo.you'], { input: 'late\n' });
    expect(ended.status).toBe(3);
    expect(ended.stderr).toContain(`${id} has ended.`);
    expect(await textsOf(id)).toEqual([]);
  });

  it('offers to join if the agent is only invited', async () => {
    const id = (await as('demo.you', 'session', 'create', 'alice.bot')).stdout.trim();
    const refused = await home.asp(['chat', id, '-a', 'alice.bot'], { input: 'hi\n' });
    expect(refused.status).toBe(3);
    expect(refused.stderr).toContain(`try:  asp session join ${id}`);
  });

  it('prints events with --json', async () => {
    const id = await openSession();
    await as('alice.bot', 'send', id, 'hello');
    const { stdout } = await home.asp(['chat', id, '--json', '-a', 'demo.you'], { input: '' });
    expect(jsonLines(stdout)[0]).toMatchObject({ type: 'session.message', payload: { content: 'hello' } });
  });

  it('survives a restart of the service: a line typed in the meantime is sent once', async () => {
    const id = await openSession();
    const chat = home.start(['chat', id, '-a', 'demo.you'], { input: { isOpen: true } });
    await chat.until('stdout', /@alice\.bot joined/);
    await service.stop();
    chat.child.stdin?.write('typed while it was away\n');
    await chat.until('stderr', /Cannot connect to the service/);
    service = await startServe(home, ['--limits', 'off'], service.url);
    await until('the line arrives', async () => (await textsOf(id)).length > 0, 40_000);
    chat.child.stdin?.end();
    expect((await chat.ended).status).toBe(0);
    expect(await textsOf(id)).toEqual(['typed while it was away']);
  });
});

describe.skipIf(missing('tmux') !== undefined)('asp chat at a terminal', () => {
  let close: () => Promise<unknown> = async () => undefined;
  // Closes the chat after a failed test too, or it would wait for its service forever.
  afterEach(() => close());
  /** Opens a terminal of this width in which the chat runs. */
  const openTerminal = (width: number, words: readonly string[], environment: Record<string, string> = {}) => {
    const variables = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
    return openShell(width, `env ${variables.join(' ')} asp ${words.join(' ')}; echo "exit $?"`);
  };
  /** Opens a terminal of this width in which a shell runs this line. */
  async function openShell(width: number, line: string) {
    const terminal = await openTmux(home, width, line);
    close = terminal.close;
    return terminal;
  }

  it('says that a person typed a line, unless a coding agent has the terminal', async () => {
    const id = await openSession();
    for (const environment of [{}, { CLAUDECODE: '1' }]) {
      const terminal = await openTerminal(80, ['chat', id, '-a', 'demo.you'], environment);
      await terminal.shows(/\n>/);
      await terminal.type('-l', 'typed');
      await terminal.type('Enter');
      await terminal.type('C-d');
      await terminal.shows(/exit 0/);
      await close();
    }
    const { stdout } = await as('demo.you', 'session', 'events', id, '--after', '0', '--type', 'session.message');
    const messages = jsonLines<{ payload: { metadata?: object } }>(stdout).map(({ payload }) => payload.metadata);
    expect(messages).toEqual([{ sent_by: 'chat' }, undefined]);
  });

  it.each([80, 40])('the typed line stays intact while messages arrive, at %i columns', async (width) => {
    const id = await openSession();
    const terminal = await openTerminal(width, ['chat', id, '-a', 'demo.you']);
    await terminal.shows(/@alice\.bot joined\n>/);
    const typed = 'a line long enough to wrap at this width, and still being typed while she answers it';
    await terminal.type('-l', typed);
    await as('alice.bot', 'send', id, 'first');
    await as('alice.bot', 'send', id, 'second\nof two lines');
    await terminal.shows(/of two lines/);
    await terminal.type('-l', ' now');
    await terminal.shows(/answers\s+it now|answers it\s+now|now$/m);
    const shown = await terminal.screen();
    const joined = shown
      .split('\n')
      .slice(shown.split('\n').findIndex((line) => line.startsWith('> ')))
      .join('');
    expect(joined).toBe(`> ${typed} now`);
    expect(shown).toMatch(/\d\d:\d\d @alice\.bot {2}first\n\d\d:\d\d @alice\.bot\n {2}second\n {2}of two lines\n> /);
    await terminal.type('Enter');
    await until('the line arrives', async () => (await textsOf(id)).includes(`${typed} now`));
    await terminal.type('C-d');
    await terminal.shows(/You left the chat.[\s\S]*\nexit 0/);
    expect((await terminal.screen()).replace(/\s/g, '')).toContain(`Tocontinue:aspchat${id}--as@`);
    expect((await terminal.screen()).match(/being typed/g)).toHaveLength(1);
  });

  it('a wider terminal keeps the message above a typed line that took several rows', async () => {
    const id = await openSession();
    const terminal = await openTerminal(40, ['chat', id, '-a', 'demo.you']);
    await terminal.shows(/@alice\.bot joined\n>/);
    await terminal.type('-l', 'a line long enough to wrap at this width, and still being typed');
    await terminal.shows(/being typed/);
    await as('alice.bot', 'send', id, 'a message');
    await terminal.shows(/@alice\.bot {2}a message\n>[\s\S]*being typed/);
    await terminal.resize(100);
    await terminal.type('-l', ' now');
    await terminal.shows(/being typed now/);
    expect(await terminal.screen()).toMatch(/@alice\.bot {2}a message\n> a line long enough .* being typed now\n$/);
  });

  it('takes keys again after Ctrl-Z and fg', async () => {
    const id = await openSession();
    const terminal = await openShell(80, `set -m; asp chat ${id} -a demo.you; echo away; fg; echo "exit $?"`);
    await terminal.shows(/@alice\.bot joined\n>/);
    await terminal.type('-l', 'half a');
    await terminal.shows(/> half a/);
    await terminal.type('C-z');
    await terminal.shows(/away\n[\s\S]*> half a/);
    await terminal.type('-l', ' line');
    await terminal.shows(/> half a line/);
    await terminal.type('C-u', 'C-d');
    await terminal.shows(/exit 0/);
  });

  describe('if there are several sessions with an agent', () => {
    let older: string;
    let newer: string;
    beforeAll(async () => {
      const open = async (): Promise<string> => {
        const id = (await as('carol.bot', 'session', 'create', 'alice.bot')).stdout.trim();
        await as('alice.bot', 'session', 'join', id);
        return id;
      };
      [older, newer] = [await open(), await open()];
      await as('carol.bot', 'send', older, 'the old plan');
      await as('alice.bot', 'send', newer, `is the new plan ready?\n${'and what is in it? '.repeat(9)}`);
    });

    it.each([
      [80, true],
      [40, false],
    ])(
      'asks which one, with the age and the last line of each, newest first, at %i columns',
      async (width, hasEnding) => {
        const terminal = await openTerminal(width, ['chat', '@alice.bot', '-a', 'carol.bot']);
        await terminal.shows(/You have 2 sessions with @alice\.bot\.\s[\s\S]*you: the/);
        const shown = await terminal.screen();
        const ending = (id: string): string => (hasEnding ? ` …${id.slice(-6)} ` : '');
        // Each session takes one line.
        const first = `● (just now|\\d+s ago) +${ending(newer)} ?is the new pl?.*…`;
        expect(shown).toMatch(
          new RegExp(`${first}\n│  ○ (just now|\\d+s ago) +${ending(older)} ?you: the old p(lan|…)\n`),
        );
        await terminal.type('Down', 'Enter');
        await terminal.shows(/@carol\.bot {2}the old plan\n>/);
        await terminal.type('C-d');
        await terminal.shows(/exit 0/);
      },
    );

    it.each(['tail @alice.bot --no-follow --text', 'reply @alice.bot soon', 'session show @alice.bot'])(
      'asp %s asks too',
      async (words) => {
        const terminal = await openTerminal(80, [words, '--accessible', '-a', 'carol.bot'], { NO_COLOR: '1' });
        await terminal.shows(
          / {2}1 {2}.*(now|ago) +…\w+ {2}[\s\S]* {2}2 {2}.*(now|ago) +…\w+ {2}[\s\S]*Number \(1 to 2\):/,
        );
        await terminal.type('1', 'Enter');
        await terminal.shows(/exit 0/);
        expect(await terminal.screen()).toMatch(/soon|new plan|old plan|sess_/);
      },
    );
  });

  it('a question still takes its answer after Ctrl-Z and fg', async () => {
    const id = (await as('demo.you', 'session', 'create', 'alice.bot')).stdout.trim();
    const terminal = await openShell(100, `set -m; asp chat ${id} -a alice.bot; echo away; fg; echo "exit $?"`);
    await terminal.shows(/Join it\?[\s\S]*Yes/);
    await terminal.type('C-z');
    await terminal.shows(/away\n[\s\S]*asp chat/);
    await terminal.type('Enter');
    await terminal.shows(/You are @alice\.bot\. Ctrl-D leaves\.[\s\S]*\n>/);
    await terminal.type('C-d');
    await terminal.shows(/exit 0/);
  });

  it('breaks long messages between words', async () => {
    const id = await openSession();
    await as('alice.bot', 'send', id, 'An answer that is too long for one line of this terminal.\n    make all');
    const terminal = await openTerminal(40, ['chat', id, '-a', 'demo.you']);
    await terminal.shows(
      /@alice\.bot\n {2}An answer that is too long for one\n {2}line of this terminal\.\n {6}make all\n>/,
    );
    await terminal.type('C-d');
    await terminal.shows(/exit 0/);
  });

  it('/help and /quit are not sent, and //help sends /help', async () => {
    const id = await openSession();
    const terminal = await openTerminal(80, ['chat', id, '-a', 'demo.you']);
    await terminal.shows(/@alice\.bot joined\n>/);
    await terminal.type('/help', 'Enter');
    await terminal.shows(/Every line is sent, except \/help and \/quit/);
    await terminal.type('//help', 'Enter');
    await until('the line arrives', async () => (await textsOf(id)).length > 0);
    await terminal.type('/quit', 'Enter');
    await terminal.shows(/You left the chat.[\s\S]*\nexit 0/);
    expect(await textsOf(id)).toEqual(['/help']);
  });

  it('--accessible redraws nothing: new messages wait until the line is sent', async () => {
    const id = await openSession();
    const terminal = await openTerminal(80, ['chat', id, '--accessible', '-a', 'demo.you'], { NO_COLOR: '1' });
    await terminal.shows(/@alice\.bot joined/);
    await terminal.type('-l', 'half a');
    await terminal.shows(/half a/);
    await as('alice.bot', 'send', id, 'meanwhile');
    await new Promise((resolve) => setTimeout(resolve, 800));
    expect(await terminal.screen()).not.toContain('meanwhile');
    const state = async () => (await as('alice.bot', 'session', 'show', id, '--delivery')).stdout;
    expect(await state()).not.toContain('taken');
    await terminal.type('-l', ' line');
    await terminal.type('Enter');
    await terminal.shows(/half a line\n\d\d:\d\d @alice\.bot {2}meanwhile/);
    expect(await terminal.escapes()).not.toContain('\u001b[');
    await terminal.type('C-d');
    await terminal.shows(/exit 0/);
    expect(await state()).toMatch(/@demo\.you +taken/);
  });

  describe('while the service is down', () => {
    /** A chat in which two lines are typed while the service is down. */
    async function typeTwoLines() {
      const id = await openSession();
      const terminal = await openTerminal(80, ['chat', id, '-a', 'demo.you']);
      await terminal.shows(/@alice\.bot joined\n>/);
      await service.stop();
      await terminal.shows(/Cannot connect to the service/);
      await terminal.type('one', 'Enter', 'two', 'Enter');
      await terminal.shows(/> one\n> two\n>/);
      return { id, terminal };
    }
    afterEach(async () => {
      if (service.running.child.exitCode !== null) service = await startServe(home, ['--limits', 'off'], service.url);
    });

    it('Ctrl-D says that lines are still being sent, and they are once it is back', async () => {
      const { id, terminal } = await typeTwoLines();
      await terminal.type('C-d');
      await terminal.shows(/Still sending what you typed\. Ctrl-C gives up\./);
      service = await startServe(home, ['--limits', 'off'], service.url);
      await terminal.shows(/You left the chat\.[\s\S]*\nexit 0/);
      expect(await textsOf(id)).toEqual(['one', 'two']);
    });

    it('Ctrl-C says how many lines may not have been sent', async () => {
      const { terminal } = await typeTwoLines();
      await terminal.type('C-c');
      await terminal.shows(/Your last 2 lines may not have been sent\.\nexit 130/);
    });
  });

  it('Ctrl-C says how much may not have been sent while a session begins, too', async () => {
    const terminal = await openTerminal(80, ['chat', '@bob.bot', '-a', 'alice.bot']);
    await terminal.shows(/\n> ?$/m);
    service.running.kill('SIGSTOP');
    try {
      await terminal.type('one', 'Enter', 'two', 'Enter');
      await terminal.shows(/> one\n> two\n>/);
      await terminal.type('C-c');
      await terminal.shows(/Your last 2 lines may not have been sent\.\nexit 130/);
    } finally {
      service.running.kill('SIGCONT');
    }
  });

  it('Ctrl-C ends it like any program and leaves the terminal as it was', async () => {
    const id = await openSession();
    const terminal = await openTerminal(80, ['chat', id, '-a', 'demo.you']);
    await terminal.shows(/\n> ?$/m);
    await terminal.type('C-c');
    await terminal.shows(/exit 130/);
  });

  it('removes characters that could control the terminal', async () => {
    const id = await openSession();
    await as('alice.bot', 'send', id, '\u001b]0;owned\u0007\u001b[2Jclean\u202e');
    const terminal = await openTerminal(80, ['chat', id, '-a', 'demo.you']);
    await terminal.shows(/@alice\.bot {2}.*clean/);
    await terminal.type('C-d');
    await terminal.shows(/exit 0/);
  });
});
