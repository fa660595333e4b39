import { command } from '../command.js';
import type { Context } from '../context/context.js';
import { findRuntimeDirectory } from '../context/runtime-directory.js';
import { ifGiven, readSessionName, SESSION_ABOUT } from '../values.js';
import { findSession } from './session/find-session.js';

export const open = command({
  path: 'open',
  summary: 'open the dashboard, or the page of a session, in the browser',
  details: [
    'Also prints the address; without a browser, it only prints it. The page asks you to sign in; asp serve open signs',
    'you in to a local service.',
  ].join('\n'),
  arguments: [{ usage: '[session]', about: SESSION_ABOUT }],
  options: [{ flags: '--no-browser', about: 'only print the address' }],
  examples: [
    { line: 'asp open', about: 'agents, sessions, connected apps' },
    { line: 'asp open @alice.bot', about: 'the conversation with Alice’s agent' },
  ],
  effect: 'read',
  stdout: 'the address',
  parse: (args) => ({
    session: ifGiven(args.argument('session'), readSessionName),
    opensBrowser: !args.flag('no-browser'),
  }),
  async run(context, { session, opensBrowser }) {
    const { output } = context;
    const sessionId = session === undefined ? undefined : await findSession(context, session);
    const page = sessionId === undefined ? '/dashboard' : `/dashboard/sessions/${sessionId}`;
    const url = `${(await findWebUrl(context)).replace(/\/$/, '')}${page}`;
    const { openIfPossible } = await import('../terminal/browser.js');
    const isOpened = opensBrowser && (await openIfPossible(url, context));
    await output.document({ url, session_id: sessionId ?? null, opened: isOpened }, (safe) => safe.url);
    if (opensBrowser && !isOpened) await output.note('There is no browser to open here: open the address yourself.');
  },
});

/** The address of the dashboard: from the profile, or else from the authorization server of the service. */
async function findWebUrl(context: Context): Promise<string> {
  const profile = await context.profile();
  if (profile.webUrl !== undefined) return profile.webUrl;
  const { discover } = await import('../../client/oauth/discover.js');
  const { paths, random, globals, signal } = context;
  const cacheDirectory = await findRuntimeDirectory(paths);
  const discovery = await discover(
    { transport: await context.transport(), random, retries: globals.retries, cacheDirectory },
    profile,
    signal,
  );
  return new URL(discovery.metadata.authorization_endpoint).origin;
}
