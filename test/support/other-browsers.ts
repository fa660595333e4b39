import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import WebSocket from 'ws';

import { freePort } from './free-port.js';
import { until } from './until.js';

const FIREFOX = '/usr/bin/firefox-esr';
const WEBKIT_DRIVER = '/usr/bin/WebKitWebDriver';
const X_SERVER = '/usr/bin/Xvfb';

/** A browser other than Chromium, as much of it as a short journey needs. */
export interface OtherBrowser {
  open(url: string): Promise<void>;
  /** The value of an expression in the page, as JSON carries it. */
  evaluate<T>(expression: string): Promise<T>;
  /** Clicks the element, as a person does. */
  press(selector: string): Promise<void>;
  /** Types into the field, key by key. */
  type(selector: string, text: string): Promise<void>;
  /**
   * Errors of scripts, and violations of a content security policy: in Firefox all of them, in WebKit those since the
   * page was opened.
   */
  complaints(): Promise<readonly string[]>;
  close(): Promise<void>;
}

export interface Engine {
  readonly name: string;
  /** The reason to skip tests that need it, or undefined. */
  readonly missing: string | undefined;
  launch(): Promise<OtherBrowser>;
}

const whyMissing = (...files: readonly string[]): string | undefined => {
  const missing = files.filter((file) => !existsSync(file));
  return missing.length === 0 ? undefined : `not installed: ${missing.join(', ')}`;
};

/** Firefox over WebDriver BiDi, and WebKit, the engine of Safari, over classic WebDriver. Neither needs an npm package. */
export const OTHER_ENGINES: readonly Engine[] = [
  { name: 'Firefox', missing: whyMissing(FIREFOX), launch: launchFirefox },
  { name: 'WebKit', missing: whyMissing(WEBKIT_DRIVER, X_SERVER), launch: launchWebKit },
];

/** Starts a program in a home that is removed with it. */
function start(command: string, words: readonly string[], environment: NodeJS.ProcessEnv = {}) {
  const home = mkdtempSync(join(tmpdir(), 'asp-engine-'));
  const env = { PATH: process.env['PATH'], HOME: home, XDG_RUNTIME_DIR: home, LANG: 'C.UTF-8', ...environment };
  const child: ChildProcess = spawn(command, words, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const lines: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    if (stream !== null) createInterface({ input: stream }).on('line', (line) => lines.push(line));
  return {
    lines,
    find: (pattern: RegExp) =>
      until(
        `${command} says ${pattern}`,
        async () => lines.map((line) => pattern.exec(line)?.[1]).find(Boolean),
        30_000,
      ),
    async stop() {
      child.kill();
      await ended;
      rmSync(home, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
    },
  };
}

async function launchFirefox(): Promise<OtherBrowser> {
  const program = start(FIREFOX, ['--headless', '--no-remote', '--remote-debugging-port=0']);
  const address = await program.find(/^WebDriver BiDi listening on (\S+)/);
  const socket = new WebSocket(`${address}/session`);
  const waiting = new Map<number, (answer: BidiAnswer) => void>();
  const complaints: string[] = [];
  socket.on('message', (data) => {
    const message = JSON.parse(String(data)) as BidiAnswer & { id?: number; params?: { level: string; text: string } };
    if (message.params?.level === 'error') complaints.push(message.params.text);
    waiting.get(message.id ?? -1)?.(message);
  });
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  let last = 0;
  const send = async (method: string, params: object): Promise<BidiResult> => {
    last += 1;
    const id = last;
    const answered = new Promise<BidiAnswer>((resolve) => waiting.set(id, resolve));
    socket.send(JSON.stringify({ id, method, params }));
    const { result, message } = await answered;
    if (result === undefined) throw new Error(`${method}: ${message}`);
    return result;
  };
  await send('session.new', { capabilities: {} });
  await send('session.subscribe', { events: ['log.entryAdded'] });
  const { contexts } = await send('browsingContext.getTree', {});
  const context = contexts?.[0]?.context ?? '';
  const run = async (expression: string) => {
    const { result, exceptionDetails } = await send('script.evaluate', {
      expression,
      target: { context },
      awaitPromise: true,
    });
    if (exceptionDetails !== undefined) throw new Error(`${expression}: ${exceptionDetails.text}`);
    return result;
  };
  const act = (type: 'pointer' | 'key', actions: readonly object[]) =>
    send('input.performActions', { context, actions: [{ type, id: type, actions }] });
  const press = async (selector: string): Promise<void> => {
    const found = await run(
      `(() => { const one = document.querySelector(${JSON.stringify(selector)}); one.scrollIntoView({ block: 'center', behavior: 'instant' }); return one; })()`,
    );
    const origin = { type: 'element', element: { sharedId: found?.sharedId } };
    await act('pointer', [
      { type: 'pointerMove', x: 0, y: 0, origin },
      { type: 'pointerDown', button: 0 },
      { type: 'pointerUp', button: 0 },
    ]);
  };
  return {
    complaints: async () => complaints,
    open: async (url) => {
      await send('browsingContext.navigate', { context, url, wait: 'complete' });
    },
    evaluate: async (expression) => JSON.parse(String((await run(`JSON.stringify(${expression}) ?? 'null'`))?.value)),
    press,
    type: async (selector, text) => {
      await press(selector);
      await act(
        'key',
        [...text].flatMap((value) => [
          { type: 'keyDown', value },
          { type: 'keyUp', value },
        ]),
      );
    },
    close: async () => {
      socket.close();
      await program.stop();
    },
  };
}

interface BidiAnswer {
  readonly result?: BidiResult;
  readonly message?: string;
}
interface BidiResult {
  readonly contexts?: readonly { readonly context: string }[];
  readonly result?: { readonly value?: unknown; readonly sharedId?: string };
  readonly exceptionDetails?: { readonly text: string };
}

const LISTEN = `window.complaints = [];
addEventListener('error', ({ message }) => complaints.push(message));
addEventListener('unhandledrejection', ({ reason }) => complaints.push(String(reason)));
addEventListener('securitypolicyviolation', (event) => complaints.push(event.effectiveDirective + ' ' + event.blockedURI));`;

async function launchWebKit(): Promise<OtherBrowser> {
  const screen = start(X_SERVER, ['-displayfd', '1', '-screen', '0', '1400x1000x24', '-nolisten', 'tcp']);
  const display = await screen.find(/^(\d+)$/);
  const port = await freePort();
  const program = start(WEBKIT_DRIVER, [`--port=${port}`], { DISPLAY: `:${display}` });
  const call = async <T>(method: string, path: string, body?: object): Promise<T> => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
      method,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const { value } = (await answer.json()) as { value: T };
    if (!answer.ok) throw new Error(`${method} ${path}: ${JSON.stringify(value)}`);
    return value;
  };
  await until('the driver answers', () =>
    call('GET', '/status')
      .then(() => true)
      .catch(() => false),
  );
  const { sessionId } = await call<{ sessionId: string }>('POST', '/session', { capabilities: {} });
  const send = <T>(path: string, body: object): Promise<T> => call<T>('POST', `/session/${sessionId}${path}`, body);
  const find = async (value: string): Promise<string> =>
    Object.values(await send<Record<string, string>>('/element', { using: 'css selector', value }))[0] ?? '';
  return {
    complaints: () => send('/execute/sync', { script: 'return complaints', args: [] }),
    open: async (url) => {
      await send('/url', { url });
      await send('/execute/sync', { script: LISTEN, args: [] });
    },
    evaluate: (expression) => send('/execute/sync', { script: `return ${expression}`, args: [] }),
    press: async (selector) => send(`/element/${await find(selector)}/click`, {}),
    type: async (selector, text) => send(`/element/${await find(selector)}/value`, { text }),
    close: async () => {
      await call('DELETE', `/session/${sessionId}`);
      await program.stop();
      await screen.stop();
    },
  };
}
