import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { type Browser, openBrowser, type Page } from '../support/browser.js';
import { visibleText } from '../support/html-form.js';
import { allow, mustFindForm, signUp } from '../support/person.js';
import { createHome, type Home, type Running, type ServiceProcess, startServe } from './program.js';

const COMMAND = /<pre class="command"[^>]*>([\s\S]*?)<\/pre>/g;

/** Returns the command blocks of a page as a person would paste them. */
const commandsOn = ({ answer }: Page): string[] =>
  [...answer.text.matchAll(COMMAND)].map(([, block = '']) =>
    block.split('<span class="line">').slice(1).map(visibleText).join('\n'),
  );

describe('Every command that the dashboard prints', () => {
  let home: Home;
  let service: ServiceProcess;
  let browser: Browser;
  let web: string;
  beforeAll(async () => {
    home = createHome();
    service = await startServe(home);
    web = new URL(service.url).origin;
    browser = openBrowser();
    const person = { username: 'ada', password: 'a long enough one', agentName: 'main', handle: '@ada.main' };
    await signUp(browser, await browser.open(web), person);
  });
  afterAll(async () => {
    await service?.stop();
    await home?.dispose();
  });

  const open = (path: string): Promise<Page> => browser.open(`${web}/dashboard/${path}`);
  const onlyCommandOn = async (path: string): Promise<string> => {
    const [command = '', ...others] = commandsOn(await open(path));
    expect([path, others]).toEqual([path, []]);
    return command;
  };
  const press = async (path: string, button: RegExp, values: Record<string, string>): Promise<Page> => {
    const page = await open(path);
    return browser.submit(page, mustFindForm(page, button), values, button);
  };
  const start = (command: string): Running => home.spawn('bash', ['-c', command]);
  /** Pastes a command that signs in, and approves it in the browser. */
  const signInWith = async (command: string, choice: Readonly<Record<string, string>>): Promise<string> => {
    const login = start(command);
    const [, url = ''] = await login.until('stderr', /^\s*(http:\S+)$/m);
    const back = await allow(browser, await browser.open(url), choice);
    await browser.open(back.answer.headers['location'] ?? '');
    const { status, stdout, stderr } = await login.ended;
    expect([status, stderr]).toEqual([0, stderr]);
    return stdout;
  };
  /** Pastes a command that runs forever, and stops it when its output matches. */
  const watchWith = async (command: string, pattern: RegExp, meanwhile: () => Promise<unknown>): Promise<void> => {
    const tail = start(command);
    try {
      const seen = tail.until('stdout', pattern);
      await Promise.all([seen, meanwhile()]);
    } finally {
      tail.kill('SIGINT');
      await tail.ended;
    }
  };

  it('signs in a terminal, if there are no agents or applications yet', async () => {
    const command = await onlyCommandOn('agents');
    expect(await onlyCommandOn('applications')).toBe(command);
    expect(commandsOn(await open('sessions'))).toEqual([]);
    expect(await signInWith(command, { agent: 'new', agent_name: 'main' })).toBe('@ada.main\n');
  });

  it('waits for a first session, or starts one with an existing agent', async () => {
    const waiting = await onlyCommandOn('sessions');
    expect(waiting).toBe(`asp -p ${service.url} --as @ada.main tail`);
    await press('new-agent', /^create agent$/i, { name: 'second', display_name: 'Second' });
    const first = await onlyCommandOn('sessions');
    await watchWith(waiting, /"session.message"/, async () => {
      const sent = await home.shell(first);
      expect(sent).toMatchObject({ status: 0, stdout: expect.stringMatching(/^sess_\w+\n$/) });
    });
    expect(commandsOn(await open('sessions'))).toEqual([]);
  });

  it('signs in as one agent and receives as that agent', async () => {
    const [login = '', tail = ''] = (await onlyCommandOn('agents/second')).split('\n');
    expect(await signInWith(login, {})).toBe('@ada.second\n');
    await watchWith(tail, /"session.invited"/, () =>
      home.shell(`asp -p ${service.url} --as @ada.main send @ada.second again`),
    );
  });

  it('lets the account’s own agents in again', async () => {
    await press('agents/main/allowlist', /^remove/i, { entry: '@ada.*' });
    const command = await onlyCommandOn('agents/main/allowlist');
    expect(await home.shell(command)).toMatchObject({ status: 0 });
    expect((await open('agents/main/allowlist')).text).toContain('@ada.*');
    expect(commandsOn(await open('agents/main/blocks'))).toEqual([]);
  });

  it('makes a program act as the agent of its client', async () => {
    expect(commandsOn(await open('clients'))).toEqual([]);
    const made = await press('new-client', /^create api credential$/i, { name: 'Nightly', agent: 'second' });
    const [command = ''] = commandsOn(made).filter((block) => block.includes('\n'));
    const other = createHome();
    expect(await other.shell(command)).toMatchObject({ status: 0, stdout: '@ada.second\n' });
    await other.dispose();
  });
});
