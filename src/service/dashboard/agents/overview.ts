import { InboundPolicy, type UpdateAgentRequest, Visibility } from '../../../wire/agent.js';
import { toAgent } from '../../agents/agent-record.js';
import { mayHaveOpenAgents } from '../../agents/create-agent.js';
import { updateAgent } from '../../agents/update-agent.js';
import type { Parameters } from '../../authorization-server/parameters.js';
import { type AccessValues, renderOverview } from '../../pages/dashboard/agent-page.js';
import { ServiceError } from '../../service-error.js';
import { type DashboardAnswer, movedWithNote, page, type Refusal, type Visit } from '../visit.js';
import { agentPathOf, requireAgent } from './own-agent.js';

export async function showAgent(visit: Visit): Promise<DashboardAnswer> {
  return overviewOf(visit, { mistakes: [], status: 200 });
}

/** Who can invite and find the agent, and whether it starts sessions. */
export async function actAccess(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { inboundPolicy, visibility, canInitiateSessions } = readAccess(form);
  try {
    await change(visit, {
      ...(inboundPolicy !== undefined && { inbound_policy: inboundPolicy }),
      ...(visibility !== undefined && { visibility }),
      can_initiate_sessions: canInitiateSessions,
    });
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== 'FEATURE_NOT_AVAILABLE') throw error;
    const mistake = { field: 'inbound_policy-open', message: error.message };
    return accessAgain(visit, form, { mistakes: [mistake], status: 403 });
  }
  return movedWithNote(visit, addressOf(visit), 'saved');
}

export async function accessAgain(visit: Visit, form: Parameters, refusal: Refusal): Promise<DashboardAnswer> {
  return overviewOf(visit, refusal, readAccess(form));
}

function readAccess(form: Parameters) {
  const inboundPolicy = InboundPolicy.safeParse(form.one('inbound_policy')).data;
  const visibility = Visibility.safeParse(form.one('visibility')).data;
  return {
    ...(inboundPolicy !== undefined && { inboundPolicy }),
    ...(visibility !== undefined && { visibility }),
    canInitiateSessions: form.one('can_initiate_sessions') === 'true',
  };
}

export async function actPause(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const paused = form.one('paused') === 'true';
  await change(visit, { paused });
  return movedWithNote(visit, addressOf(visit), paused ? 'paused' : 'resumed');
}

async function change(visit: Visit, body: UpdateAgentRequest): Promise<void> {
  const { context, actor } = visit;
  const input = { path: agentPathOf(visit), body };
  await context.database.write((transaction) => updateAgent(context, actor, input, transaction));
}

async function overviewOf(
  visit: Visit,
  { mistakes, status }: Refusal,
  chosen: Partial<AccessValues> = {},
): Promise<DashboardAnswer> {
  const { context, account, csrf, note } = visit;
  const row = await context.database.read((view) => requireAgent(visit, view));
  const agent = toAgent(row);
  const stored = {
    inboundPolicy: agent.inbound_policy,
    visibility: agent.visibility,
    canInitiateSessions: agent.can_initiate_sessions,
  };
  const view = renderOverview({
    agent,
    access: { ...stored, ...chosen },
    csrf,
    note,
    mistakes,
    now: context.clock.now(),
    baseUrl: context.settings.addresses.baseUrl,
    mayBeOpen: mayHaveOpenAgents(context.settings, account),
  });
  return page(view, { status });
}

const addressOf = ({ part }: Visit): string => `/dashboard/agents/${part('name')}`;
