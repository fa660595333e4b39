import type { UpdateAgentRequest } from '../../wire/agent.js';
import type { ServiceContext } from '../context.js';
import { type AgentRecordRow, updateAgentRow } from '../store/agent-rows.js';
import type { Transaction } from '../store/database.js';
import { refreshSearchTerms } from './search-terms.js';

/** Writes what `changes` names and leaves the rest as it is. */
export async function changeAgent(
  context: Pick<ServiceContext, 'clock'>,
  transaction: Transaction,
  row: AgentRecordRow,
  changes: UpdateAgentRequest,
): Promise<AgentRecordRow> {
  const asColumn = (value: boolean | undefined, old: number): number => (value === undefined ? old : value ? 1 : 0);
  const changed: AgentRecordRow = {
    ...row,
    display_name: changes.display_name ?? row.display_name,
    description: changes.description === undefined ? row.description : changes.description,
    card_body: changes.card_body === undefined ? row.card_body : changes.card_body,
    skills: changes.skills === undefined ? row.skills : JSON.stringify(changes.skills),
    visibility: changes.visibility ?? row.visibility,
    inbound_policy: changes.inbound_policy ?? row.inbound_policy,
    can_initiate_sessions: asColumn(changes.can_initiate_sessions, row.can_initiate_sessions),
    is_paused: asColumn(changes.paused, row.is_paused),
    updated_at: context.clock.now(),
  };
  await updateAgentRow(transaction, changed);
  await refreshSearchTerms(transaction, changed);
  return changed;
}
