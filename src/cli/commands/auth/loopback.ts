import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type AuthorizationRequest, type Callback, readCallback } from '../../../client/oauth/authorization-request.js';
import { orAborted } from '../../../kit/clock.js';
import { isOfAnotherUser } from '../../../kit/loopback.js';
import type { LocalServiceRecord } from '../../../wire/schemas/local-service.js';
import type { Context } from '../../context/context.js';
import { callOperator } from '../../context/operator.js';
import { findLocalLogin } from '../../context/stopped-service.js';
import { CliError, usageError } from '../../errors.js';
import { listRunningServices, stoppedService } from '../../profile/local-service.js';
import { loginArgs } from '../../profile/resolve-profile.js';
import { canOpenBrowser, openBrowser, withBrowser } from '../../terminal/browser.js';
import { durationText } from '../../values.js';

/** The page in the browser after the redirect: static, so that it cannot reflect anything from the request. */
export type CallbackPage = 'done' | 'refused' | 'ignored' | 'gone';

const TEXT: Record<CallbackPage, { status: number; title: string; text: string }> = {
  done: { status: 200, title: 'You are signed in', text: 'You can close this window and go back to your terminal.' },
  refused: {
    status: 200,
    title: 'Sign-in denied',
    text: 'You can close this window. Your terminal shows the next step.',
  },
  ignored: {
    status: 400,
    title: 'This page is not part of a sign-in',
    text: 'asp ignored it. If you are signing in, continue there.',
  },
  gone: { status: 410, title: 'This sign-in has ended', text: 'Start again with <code>asp login</code>.' },
};

/** The look of the service's own pages: their colors, card and logo. */
const STYLE = `
:root { color-scheme: light dark; --paper: #f4f3ee; --sheet: #fffefb; --ink: #1b1d1a; --soft: #5b6059; --line: #dedcd2;
  --accent: #0b6a4d; --on-accent: #fff; --tint: #e6f2ec; --note: #75510b; --note-tint: #fbf3df; }
@media (prefers-color-scheme: dark) { :root { --paper: #111311; --sheet: #1a1d1a; --ink: #edefea; --soft: #a4aba2; --line: #323731;
  --accent: #55d3a2; --on-accent: #052519; --tint: #17322a; --note: #f0c674; --note-tint: #332a16; } }
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; min-height: 100dvh; display: flex; flex-direction: column; align-items: center;
  padding: clamp(1rem, 12vh, 8rem) 1rem 2rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif; }
header, main { width: 100%; max-width: 28rem; }
header { display: flex; align-items: center; gap: 0.625rem; padding: 0 0.25rem 1rem; font-size: 1.0625rem; font-weight: 700; letter-spacing: -0.02em; }
header svg { width: 1.75rem; height: 1.75rem; }
main { padding: clamp(1.25rem, 6vw, 2rem); background: var(--sheet); border: 1px solid var(--line); border-radius: 1rem; }
.sign { width: 2.75rem; height: 2.75rem; display: grid; place-items: center; margin-bottom: 1rem; border-radius: 50%; background: var(--tint); color: var(--accent); }
.sign.other { background: var(--note-tint); color: var(--note); }
.sign svg { width: 1.375rem; height: 1.375rem; }
h1 { margin: 0 0 0.5rem; font-size: 1.5rem; line-height: 1.25; font-weight: 650; letter-spacing: -0.015em; text-wrap: balance; }
p { margin: 0; color: var(--soft); text-wrap: pretty; }
code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; font-size: 0.875em; color: var(--ink); }
@media (max-width: 30rem) { body { padding-top: 1rem; } }
`;

const MARK =
  '<svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="9" fill="var(--accent)"/><path d="M21.5 10.6C20.2 9.2 18.3 8.4 16 8.4c-3.4 0-5.7 1.7-5.7 4.1 0 5.5 11.4 2 11.4 7.2 0 2.3-2.3 3.9-5.6 3.9-2.6 0-4.6-.9-6-2.5" fill="none" stroke="var(--on-accent)" stroke-width="3" stroke-linecap="round"/><circle cx="22.4" cy="10.9" r="2.3" fill="var(--on-accent)"/></svg>';

const drawn = (path: string): string =>
  `<svg viewBox="0 0 20 20" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><path d="${path}"/></svg>`;
const TICK = `<div class="sign">${drawn('m4 10.5 4 4 8-9')}</div>`;
const CAUTION = `<div class="sign other">${drawn('M10 5v6M10 14.5v.1')}</div>`;

const STYLE_HASH = createHash('sha256').update(STYLE).digest('base64');

export const CALLBACK_HEADERS: Readonly<Record<string, string>> = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  connection: 'close',
};

export function callbackPage(page: CallbackPage): { status: number; html: string } {
  const { status, title, text } = TEXT[page];
  const sign = page === 'done' ? TICK : CAUTION;
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${title} · asp</title>
<style>${STYLE}</style>
</head>
<body>
<header>${MARK}asp</header>
<main>${sign}<h1>${title}</h1><p>${text}</p></main>
</body>
</html>
`;
  return { status, html };
}

const HOST = '127.0.0.1';
const PATH = '/callback';
const URL_MAX_LENGTH = 8192;
const CONNECTIONS_MAX = 64;
const SILENCE_MS = 10_000;

/** A callback that belongs to our request. */
export type OwnCallback = Exclude<Callback, { kind: 'foreign' }>;

/** Waits on this machine for the browser's redirect (RFC 8252 §7.3). */
export interface Loopback {
  readonly redirectUri: string;
  /** The first redirect that `judge` accepts as ours; all other requests are answered and ignored. */
  receive(judge: (address: string) => Callback): Promise<OwnCallback>;
  close(): Promise<void>;
}

/**
 * Listens on 127.0.0.1, or on another address to which a container’s published port leads: the browser still goes to
 * 127.0.0.1. Until `receive` is called, every request is answered and ignored.
 */
export async function listenOnLoopback(port: number, host?: string): Promise<Loopback> {
  const sockets = new Set<Socket>();
  const waiting: { judge?: (address: string) => Callback; resolve?: (callback: OwnCallback) => void; isOver: boolean } =
    {
      isOver: false,
    };
  const server = createServer({
    maxHeaderSize: 2 * URL_MAX_LENGTH,
    headersTimeout: SILENCE_MS,
    requestTimeout: SILENCE_MS,
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    // Connections that stay open are closed: the browser's own comes last and is served at once.
    if (sockets.size > CONNECTIONS_MAX)
      for (const oldest of sockets) {
        oldest.destroy();
        break;
      }
    socket.setTimeout(SILENCE_MS, () => socket.destroy());
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => {});
  });
  server.on('clientError', (_, socket) => {
    if (socket.writable) socket.end('HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n');
  });
  const bound = await bind(server, port, host);
  const origin = `http://${HOST}:${bound}`;

  server.on('request', async (request, response) => {
    if (waiting.isOver) return answer(response, 'gone');
    const callback = isForUs(request, bound) ? waiting.judge?.(`${origin}${request.url}`) : undefined;
    if (callback === undefined || callback.kind === 'foreign') return answer(response, 'ignored');
    // Every user of this machine can read the state on the command line of the browser, and could send their own code.
    if (await isOfAnotherUser(request.socket)) return answer(response, 'ignored');
    if (waiting.isOver) return answer(response, 'gone');
    waiting.isOver = true;
    answer(response, callback.kind === 'code' ? 'done' : 'refused');
    waiting.resolve?.(callback);
  });

  return {
    redirectUri: `${origin}${PATH}`,
    receive: (judge) =>
      new Promise((resolve) => {
        waiting.judge = judge;
        waiting.resolve = resolve;
      }),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        // The page that was just written must still reach the browser.
        for (const socket of sockets) socket.end();
        setTimeout(() => {
          for (const socket of sockets) socket.destroy();
        }, 500).unref();
      }),
  };
}

/** Only a plain navigation to our path under our own name: requests from other pages and rebound names are ignored. */
function isForUs(request: IncomingMessage, port: number): boolean {
  const { method, url = '', headers } = request;
  const hasOneHost =
    request.rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === 'host').length === 1;
  return (
    method === 'GET' &&
    url.length <= URL_MAX_LENGTH &&
    (url === PATH || url.startsWith(`${PATH}?`)) &&
    hasOneHost &&
    headers.host === `${HOST}:${port}` &&
    headers.origin === undefined
  );
}

function answer(response: ServerResponse, page: CallbackPage): void {
  const { status, html } = callbackPage(page);
  response.on('error', () => {});
  response.writeHead(status, { ...CALLBACK_HEADERS, 'content-length': Buffer.byteLength(html) });
  response.end(html);
}

function bind(server: Server, port: number, host: string | undefined): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) => {
      const code = 'code' in error ? error.code : undefined;
      if (code !== 'EADDRINUSE' && code !== 'EACCES')
        return reject(host === undefined ? error : cannotListen(host, code, error));
      reject(
        new CliError('ASP_PORT_IN_USE', {
          message: `Could not listen on port ${port} for the sign-in.`,
          next: ['asp', 'login'],
          cause: error,
        }),
      );
    });
    server.listen({ host: host ?? HOST, port, exclusive: true }, () => {
      const address = server.address();
      resolve(typeof address === 'object' && address !== null ? address.port : port);
    });
  });
}

function cannotListen(host: string, code: unknown, cause: Error): CliError {
  if (code === 'EADDRNOTAVAIL') return usageError(`--callback-host: this machine has no address ${host}.`, { cause });
  return usageError(`--callback-host: asp cannot listen on ${host} (${String(code)}).`, { cause });
}

const PASTE_MAX_LENGTH = 16_384;

export interface BrowserWish {
  readonly isWanted: boolean;
  readonly command: string | undefined;
  /** The command that starts again after a timeout. */
  readonly again: readonly string[];
}

/**
 * Shows the address, opens the browser unless that is turned off, and waits for the redirect to this machine or for its
 * address pasted on the terminal, whichever comes first.
 */
export async function awaitCallback(
  context: Context,
  request: AuthorizationRequest,
  loopback: Loopback,
  browser: BrowserWish,
): Promise<OwnCallback> {
  const { output, machine, prompts, streams } = context;
  const environment = withBrowser(context.environment, context.globals.browser);
  const judge = (address: string) => readCallback(request, address);
  const received = loopback.receive(judge);
  // For a person, whatever the format: programs use the two steps --start and --finish.
  await streams.stderr.write(`Open this address to sign in:\n\n  ${request.url}\n\n`);
  const opens = browser.isWanted && (browser.command !== undefined || canOpenBrowser(environment, machine.platform));
  if (opens && !(await openBrowser(request.url, environment, browser.command)))
    await output.note('Could not open the browser. Open the address yourself.');
  const upTo = context.deadline === undefined ? '' : ` up to ${durationText(context.deadline.afterMs)}`;
  if (prompts.canAsk)
    await output.note(
      `Waiting${upTo}. If the browser cannot reach this machine, paste the address it ended up at and press Enter.`,
    );
  else await output.note(`Waiting${upTo} for the browser.`);

  const over = new AbortController();
  const signal = AbortSignal.any([context.signal, over.signal]);
  try {
    const ways = prompts.canAsk ? [received, pasted(context, judge, signal)] : [received];
    return await orAborted(Promise.race(ways), signal, () => {
      throw nobodySignedIn(context, browser.again);
    });
  } finally {
    over.abort();
  }
}

function nobodySignedIn({ deadline }: Context, next: readonly string[]): CliError {
  const within = deadline === undefined ? 'in time' : `within ${durationText(deadline.afterMs)}`;
  return new CliError('ASP_LOGIN_TIMEOUT', {
    message: `No one signed in ${within}.`,
    why: 'if you cannot wait, sign in in two steps: --start, then --finish.',
    next,
  });
}

/** Reads addresses from the terminal until one is ours. */
async function pasted(
  context: Context,
  judge: (address: string) => ReturnType<typeof readCallback>,
  signal: AbortSignal,
): Promise<OwnCallback> {
  let rest = '';
  for await (const bytes of context.streams.stdin.read(signal)) {
    const lines = `${rest}${Buffer.from(bytes).toString('utf8')}`.split('\n');
    rest = (lines.pop() ?? '').slice(-PASTE_MAX_LENGTH);
    for (const line of lines) {
      if (line.trim() === '') continue;
      const callback = judge(line.trim());
      if (callback.kind !== 'foreign') return callback;
      await context.output.note(
        'That is not the address this sign-in redirects to. Copy the whole address bar; it starts with http://127.0.0.1:…/callback',
      );
    }
  }
  return new Promise(() => {});
}

/** The record of the local service at this address; only its own OS user can read it. */
export async function readLocalRecord(context: Context, baseUrl: string): Promise<LocalServiceRecord> {
  const { paths, machine } = context;
  const records = await listRunningServices(paths, machine);
  const record = records.find(({ url }) => url === baseUrl);
  if (record !== undefined) return record;
  const near = records.find(({ url }) => new URL(url).origin === new URL(baseUrl).origin);
  if (near !== undefined)
    throw usageError(`The address of the local service is ${near.url}, not ${baseUrl}.`, {
      next: ['asp', 'login', '-p', near.url, '--yes'],
    });
  const login = await findLocalLogin(context, baseUrl);
  if (login !== undefined) throw stoppedService(baseUrl, login.localStart);
  throw usageError('--yes approves a sign-in only at the local service of this user.', {
    why: `no local service of this user runs at ${baseUrl}, so a person has to approve there.`,
    next: ['asp', 'login'],
  });
}

/** The agent to sign in as if none was named: the only one there is. */
export async function onlyAgent(
  context: Context,
  record: LocalServiceRecord,
  scopes: readonly string[],
): Promise<string> {
  const handles = await listLocalAgents(context, record);
  const [only = '', ...others] = handles;
  if (others.length === 0) return only;
  throw notChosen('Which agent? The local service has several.', handles, scopes);
}

/**
 * An agent of the account to sign in as if none was named: that of the agent that commands act as, or else the only
 * account with agents.
 */
export async function findAccountAgent(
  context: Context,
  record: LocalServiceRecord,
  scopes: readonly string[],
): Promise<string> {
  const handles = await listLocalAgents(context, record);
  const acting = (await context.agent().catch(() => undefined))?.handle;
  if (acting !== undefined && handles.includes(acting)) return acting;
  const [first = ''] = handles;
  const ownerOf = (handle: string): string => handle.slice(0, handle.indexOf('.'));
  if (handles.every((handle) => ownerOf(handle) === ownerOf(first))) return first;
  throw notChosen('Which account? Name one of its agents.', handles, scopes);
}

async function listLocalAgents(context: Context, record: LocalServiceRecord): Promise<readonly string[]> {
  const { agents } = await callOperator(context, record, 'listOperatorAgents');
  if (agents.length > 0) return agents.map(({ handle }) => handle);
  throw usageError('The local service has no agents yet.', { next: ['asp', 'serve', 'agent', 'add', 'me.bot'] });
}

const notChosen = (message: string, handles: readonly string[], scopes: readonly string[]): CliError =>
  usageError(message, {
    why: `the local service has ${handles.slice(0, 8).join(', ')}${handles.length > 8 ? ' and others' : ''}.`,
    next: [...loginArgs(handles[0], scopes), '--yes'],
  });

/**
 * Approves the request with the record's secret, at the endpoint where a browser would show the consent page. It goes to
 * the address where the service answers this machine, because behind a proxy it cannot tell who calls.
 */
export async function approveLocally(
  context: Context,
  record: LocalServiceRecord,
  request: AuthorizationRequest,
): Promise<OwnCallback> {
  if (new URL(request.url).origin !== new URL(record.auth_url).origin)
    throw new CliError('ASP_BAD_ANSWER', {
      message:
        'The local service names an authorization endpoint on another host, so asp did not send its secret there.',
    });
  const transport = await context.transport();
  const answer = await transport.send({
    method: 'POST',
    url: request.url.replace(new URL(record.auth_url).origin, new URL(record.operator_url).origin),
    headers: { authorization: `Bearer ${record.secret}` },
    isRedirectAnAnswer: true,
    signal: context.signal,
  });
  const callback = readCallback(request, answer.headers['location'] ?? '');
  if (callback.kind !== 'foreign') return callback;
  throw new CliError('ASP_BAD_ANSWER', {
    message: `The local service did not approve the sign-in (status ${answer.status}).`,
  });
}
