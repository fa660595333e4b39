import { wait } from '../../../kit/clock.js';
import type { Context } from '../../context/context.js';
import { callOperator, requireLocalService } from '../../context/operator.js';

const POLL_MS = 50;

export function parse(): Record<never, never> {
  return {};
}

export async function run(context: Context): Promise<void> {
  const record = await requireLocalService(context);
  await callOperator(context, record, 'stopService');
  while (context.machine.isProcessAlive(record.pid)) await wait(context.clock, POLL_MS, context.signal);
  await context.output.document({ url: record.url, pid: record.pid, stopped: true }, (safe) => safe.url);
}
