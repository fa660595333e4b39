import type { Context } from '../../context/context.js';
import { viewOf, viewOfLocal } from './profile-view.js';

export function parse(): Record<never, never> {
  return {};
}

export async function run(context: Context): Promise<void> {
  const [config, record] = await Promise.all([context.config(), context.localService()]);
  const own = Object.entries(config.profiles).map(([name, entry]) => viewOf(name, entry, config));
  const items = record === undefined || 'local' in config.profiles ? own : [...own, viewOfLocal(record, config)];
  const used = await context.profile().then(
    ({ name }) => name,
    () => undefined,
  );
  await context.output.list({ items, next_cursor: null }, [
    {
      title: 'profile',
      value: ({ name }) => (name === used ? `→ ${name}` : `  ${name}`),
      paint: (text, { name }, style) => (name === used ? style.green(text) : text),
      piped: ({ name }) => name,
    },
    { title: 'base url', value: ({ base_url }) => base_url, isFlexible: true },
    { title: 'agent', value: ({ agent }) => agent ?? '-' },
  ]);
  if (items.length === 0)
    await context.output.note(
      'No profiles yet: asp profile add work --base-url https://…, or run a service: asp serve',
    );
}
