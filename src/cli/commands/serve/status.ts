import type { Context } from '../../context/context.js';
import { callOperator, requireLocalService } from '../../context/operator.js';

export function parse(): Record<never, never> {
  return {};
}

export async function run(context: Context): Promise<void> {
  const record = await requireLocalService(context);
  const status = await callOperator(context, record, 'readStatus');
  const { secret: _, ...addresses } = record;
  await context.output.document({ ...addresses, ...status }, (safe, style) =>
    [
      `${style.bold('running')} at ${safe.url}, pid ${safe.pid}, version ${safe.version}`,
      `data     ${safe.data}`,
      `holds    ${safe.accounts} accounts, ${safe.agents} agents, ${safe.sessions} sessions`,
      `sockets  ${safe.sockets}`,
    ].join('\n'),
  );
}
