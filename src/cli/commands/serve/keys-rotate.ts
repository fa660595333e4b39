import type { Context } from '../../context/context.js';
import { callOperator, requireLocalService } from '../../context/operator.js';
import { timeOf } from './keys-list.js';

export function parse(): Record<never, never> {
  return {};
}

export async function run(context: Context): Promise<void> {
  const record = await requireLocalService(context);
  const { rotated, keys } = await callOperator(context, record, 'rotateSigningKeys');
  const next = keys.find(({ state }) => state === 'next');
  if (!rotated && next !== undefined)
    await context.output.note('Nothing was changed: a next key is published already and about to take over.');
  await context.output.document({ rotated, next: next ?? null, keys }, (safe) =>
    safe.next === null ? '' : `${safe.next.kid} signs from ${timeOf(safe.next.signs_from)}`,
  );
}
