import { listRegistrations } from '../../../client/credentials/obtain-client-id.js';
import type { Context } from '../../context/context.js';
import { loginContextOf } from '../../context/login-place.js';
import { isoTime, relativeTime } from '../../terminal/relative-time.js';

export function parse(): Record<never, never> {
  return {};
}

export async function run(context: Context): Promise<void> {
  const registrations = await listRegistrations(await loginContextOf(context));
  const items = registrations.map(({ clientId, issuer, registeredAtMs }) => ({
    client_id: clientId,
    issuer,
    registered_at: registeredAtMs,
  }));
  await context.output.list({ items, next_cursor: null }, [
    { title: 'client id', value: ({ client_id }) => client_id },
    { title: 'authorization server', value: ({ issuer }) => issuer, isFlexible: true },
    {
      title: 'registered',
      value: ({ registered_at }) => relativeTime(registered_at, context.clock.now()),
      piped: ({ registered_at }) => isoTime(registered_at),
    },
  ]);
  if (items.length === 0) await context.output.note('No client is registered yet: the first login does it.');
}
