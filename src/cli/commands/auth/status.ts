import { inspectLogin } from '../../../client/credentials/inspect-login.js';
import type { Login } from '../../../client/credentials/login.js';
import type { Context } from '../../context/context.js';
import { loginContextOf } from '../../context/login-place.js';
import { isoTime, relativeTime } from '../../terminal/relative-time.js';

const STATE = {
  signed_in: 'signed in',
  ended: 'ended: sign in again',
  missing: 'gone from its store',
  unavailable: 'its store is closed',
} as const;

export function parse(): Record<never, never> {
  return {};
}

export async function run(context: Context): Promise<void> {
  const logins = await (await context.logins()).list();
  const loginContext = await loginContextOf(context);
  const { profiles } = await context.config();
  const profileOf = ({ baseUrl }: Login): string | null =>
    Object.entries(profiles).find(([, { base_url }]) => base_url === baseUrl)?.[0] ?? null;
  const items = [];
  for (const login of logins) {
    const { state, expiresAtMs } = await inspectLogin(loginContext, login);
    items.push({
      handle: login.handle,
      profile: profileOf(login),
      base_url: login.baseUrl,
      store: login.store,
      scopes: login.scopes,
      state,
      expires_at: expiresAtMs,
      signed_in_at: login.savedAtMs,
    });
  }
  const now = context.clock.now();
  await context.output.list({ items, next_cursor: null }, [
    { title: 'handle', value: ({ handle }) => handle ?? '(account)', paint: (text, _, style) => style.bold(text) },
    { title: 'service', value: ({ profile, base_url }) => profile ?? base_url, piped: ({ base_url }) => base_url },
    { title: 'store', value: ({ store }) => store },
    {
      title: 'state',
      value: ({ state }) => STATE[state],
      piped: ({ state }) => state,
      paint: (text, { state }, style) => (state === 'signed_in' ? style.green(text) : style.yellow(text)),
    },
    {
      title: 'token',
      value: ({ expires_at }) =>
        expires_at === null ? '-' : expires_at <= now ? 'expired' : relativeTime(expires_at, now),
      piped: ({ expires_at }) => isoTime(expires_at),
    },
    { title: 'scopes', value: ({ scopes }) => scopes.join(' '), isFlexible: true },
  ]);
  if (items.length === 0) await context.output.note('Nobody is signed in. Begin with: asp login');
}
