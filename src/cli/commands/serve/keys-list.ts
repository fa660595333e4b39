import type { OperatorKey } from '../../../wire/local-service.js';
import type { Context } from '../../context/context.js';
import { callOperator, requireLocalService } from '../../context/operator.js';
import type { Column } from '../../terminal/table.js';

export function parse(): Record<never, never> {
  return {};
}

export const KEY_COLUMNS: readonly Column<OperatorKey>[] = [
  { title: 'key', value: (key) => key.kid },
  { title: 'state', value: (key) => key.state },
  { title: 'signs from', value: (key) => timeOf(key.signs_from) },
  { title: 'published until', value: (key) => (key.published_until === null ? '' : timeOf(key.published_until)) },
];

export function timeOf(epochMs: number): string {
  return new Date(epochMs).toISOString().replace(/\.\d+Z$/, 'Z');
}

export async function run(context: Context): Promise<void> {
  const { keys } = await callOperator(context, await requireLocalService(context), 'listSigningKeys');
  await context.output.list({ items: keys, next_cursor: null }, KEY_COLUMNS);
}
