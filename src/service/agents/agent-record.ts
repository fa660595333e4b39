import type { Agent, AgentSummary, Skill } from '../../wire/agent.js';
import type { AgentRecordRow } from '../store/agent-rows.js';

/** The short form: what others see. Pausing shows in neither form to them, or an invite's 404 would be explained. */
export function toAgentSummary(row: AgentRecordRow): AgentSummary {
  return {
    canonical_handle: row.handle,
    display_name: row.display_name,
    description: row.description,
    image_url: row.image_url,
    visibility: row.visibility,
    inbound_policy: row.inbound_policy,
    inactive: row.removed_at !== null,
    is_online: row.is_online === 1,
    owner_label: row.owner,
    owner_display_name: row.owner_display_name,
    owner_image_url: null,
  };
}

/** The long form: what its own account sees. */
export function toAgent(row: AgentRecordRow): Agent {
  return {
    ...toAgentSummary(row),
    id: row.id,
    local_name: row.name,
    namespace: row.owner,
    owner_type: 'account',
    owner_id: row.account_id,
    scope: 'personal',
    can_initiate_sessions: row.can_initiate_sessions === 1,
    paused: row.is_paused === 1,
    card_body: row.card_body,
    skills: skillsOf(row),
    created_at: row.created_at,
    updated_at: row.updated_at,
  };
}

export function skillsOf(row: Pick<AgentRecordRow, 'skills'>): Skill[] {
  return JSON.parse(row.skills) as Skill[];
}
