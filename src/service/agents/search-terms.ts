import type { AgentRecordRow } from '../store/agent-rows.js';
import { countPublicAgents } from '../store/agent-rows.js';
import type { Transaction } from '../store/database.js';
import { accountLock } from '../store/lock-names.js';
import { replaceSearchTerms } from '../store/search-rows.js';
import { searchTermsOf } from '../store/search-text.js';
import { skillsOf } from './agent-record.js';

/** By how many different words one agent or person can be found. */
const TERMS_MAX = 200;

/** Makes an agent, and the person behind it, findable by their words now; private and removed agents by none. */
export async function refreshSearchTerms(transaction: Transaction, row: AgentRecordRow): Promise<void> {
  await transaction.lock([accountLock(row.account_id)]);
  const isFindable = row.visibility === 'public' && row.removed_at === null;
  const texts = [row.handle, row.display_name, row.description ?? '', ...skillsOf(row).map((skill) => skill.name)];
  await replaceSearchTerms(transaction, 'agent', row.id, isFindable ? distinctTerms(texts) : []);
  const isKnown = (await countPublicAgents(transaction, row.account_id)) > 0;
  const owner = [row.owner, row.owner_display_name];
  await replaceSearchTerms(transaction, 'person', row.account_id, isKnown ? distinctTerms(owner) : []);
}

function distinctTerms(texts: readonly string[]): string[] {
  return [...new Set(texts.flatMap(searchTermsOf))].slice(0, TERMS_MAX);
}
