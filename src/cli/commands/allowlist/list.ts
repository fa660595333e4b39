import type { Context } from '../../context/context.js';
import { readOwnEntries } from './entries.js';

export function parse(): Record<never, never> {
  return {};
}

export async function run(context: Context): Promise<void> {
  const items = (await readOwnEntries(context)).map((entry) => ({ entry }));
  await context.output.list({ items, next_cursor: null }, [{ title: 'entry', value: ({ entry }) => entry }]);
  if (items.length === 0) await context.output.note('The list is empty: only an open agent can be reached then.');
}
