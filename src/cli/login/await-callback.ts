import type { AuthorizationRequest } from '../../client/oauth/authorization-request.js';
import { readCallback } from '../../client/oauth/callback.js';
import type { Context } from '../context/context.js';
import { CliError } from '../errors.js';
import { canOpenBrowser, openBrowser } from '../terminal/browser.js';
import { durationText } from '../values.js';
import type { Loopback, OwnCallback } from './loopback.js';

const PASTE_MAX_LENGTH = 16_384;

export interface BrowserWish {
  readonly isWanted: boolean;
  readonly command: string | undefined;
  /** The command that begins anew when nobody came. */
  readonly again: readonly string[];
}

/**
 * Shows the address, opens the browser unless told not to, and waits for whichever comes first: the redirect to this
 * machine, or its address pasted on the terminal.
 */
export async function awaitCallback(
  context: Context,
  request: AuthorizationRequest,
  loopback: Loopback,
  browser: BrowserWish,
): Promise<OwnCallback> {
  const { output, environment, machine, prompts, streams } = context;
  const judge = (address: string) => readCallback(request, address);
  const received = loopback.receive(judge);
  // It is for a person, whatever the format: programs take the two steps of --start and --finish.
  await streams.stderr.write(`Open this address to sign in:\n\n  ${request.url}\n\n`);
  const opens = browser.isWanted && (browser.command !== undefined || canOpenBrowser(environment, machine.platform));
  if (opens && !(await openBrowser(request.url, environment, browser.command)))
    await output.note('The browser could not be started. Open the address yourself.');
  const upTo = context.deadline === undefined ? '' : ` up to ${durationText(context.deadline.afterMs)}`;
  if (prompts.canAsk)
    await output.note(
      `Waiting${upTo}. If the browser cannot reach this machine, paste the address it was sent to, and press Enter.`,
    );
  else await output.note(`Waiting${upTo} for the browser.`);

  const over = new AbortController();
  const signal = AbortSignal.any([context.signal, over.signal]);
  const aborted = new Promise<never>((_, reject) => {
    const onAbort = (): void => reject(nobodySignedIn(context, browser.again));
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
  });
  try {
    const ways = prompts.canAsk ? [received, pasted(context, judge, signal)] : [received];
    return await Promise.race([...ways, aborted]);
  } finally {
    over.abort();
  }
}

function nobodySignedIn({ deadline }: Context, next: readonly string[]): CliError {
  const within = deadline === undefined ? 'in time' : `within ${durationText(deadline.afterMs)}`;
  return new CliError('ASP_LOGIN_TIMEOUT', {
    message: `Nobody signed in ${within}.`,
    why: 'a sign-in that cannot be waited for can be done in two steps: --start, then --finish.',
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
