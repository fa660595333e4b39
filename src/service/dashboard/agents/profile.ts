import { UpdateAgentRequest } from '../../../wire/agent.js';
import { skillsOf, toAgent } from '../../agents/agent-record.js';
import { updateAgent } from '../../agents/update-agent.js';
import type { Parameters } from '../../authorization-server/parameters.js';
import { type ProfileValues, renderProfile } from '../../pages/dashboard/agent-page.js';
import type { AgentRecordRow } from '../../store/agent-rows.js';
import { type DashboardAnswer, mistaken, movedWithNote, page, type Refusal, type Visit } from '../visit.js';
import { agentPathOf, requireAgent } from './own-agent.js';
import { PROFILE_MISTAKE, readMistakes, readProfile, SKILLS_MAX } from './profile-form.js';

const EMPTY_SKILL_ROWS = 2;

export async function showProfile(visit: Visit): Promise<DashboardAnswer> {
  return profileOf(visit, { mistakes: [], status: 200 });
}

export async function actProfile(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context, actor } = visit;
  const values = readProfile(form);
  const read = UpdateAgentRequest.safeParse({
    display_name: values.displayName,
    description: values.description === '' ? null : values.description,
    card_body: values.cardBody === '' ? null : values.cardBody,
    skills: values.skills,
  });
  if (!read.success) return profileAgain(visit, form, mistaken(...readMistakes(read.error.issues, PROFILE_MISTAKE)));
  const path = agentPathOf(visit);
  await context.database.write((transaction) => updateAgent(context, actor, { path, body: read.data }, transaction));
  return movedWithNote(visit, `/dashboard/agents/${path.name}`, 'saved');
}

export async function profileAgain(visit: Visit, form: Parameters, refusal: Refusal): Promise<DashboardAnswer> {
  return profileOf(visit, refusal, readProfile(form));
}

async function profileOf(visit: Visit, { mistakes, status }: Refusal, typed?: ProfileValues): Promise<DashboardAnswer> {
  const { context, csrf } = visit;
  const row = await context.database.read((view) => requireAgent(visit, view));
  const values = typed ?? valuesOf(row);
  const view = renderProfile({
    agent: toAgent(row),
    csrf,
    note: undefined,
    mistakes,
    now: context.clock.now(),
    values,
    skillCount: Math.min(SKILLS_MAX, values.skills.length + EMPTY_SKILL_ROWS),
  });
  return page(view, { status });
}

function valuesOf(row: AgentRecordRow): ProfileValues {
  return {
    displayName: row.display_name,
    description: row.description ?? '',
    cardBody: row.card_body ?? '',
    skills: skillsOf(row),
  };
}
