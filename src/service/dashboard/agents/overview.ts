import { InboundPolicy, type UpdateAgentRequest, Visibility } from '../../../wire/agent.js';
import { toAgent } from '../../agents/agent-record.js';
import { updateAgent } from '../../agents/update-agent.js';
import type { Parameters } from '../../authorization-server/parameters.js';
import { type AccessValues, renderOverview } from '../../pages/dashboard/agent-page.js';
import { withNote } from '../../pages/dashboard/parts.js';
import type { Mistake } from '../../pages/form.js';
import { ServiceError } from '../../service-error.js';
import { type DashboardAnswer, moved, page, type Visit } from '../visit.js';
import { agentPathOf, requireAgent } from './own-agent.js';

const PAID: Mistake = {
  field: 'inbound_policy-open',
  message:
    'Only agents of a paid account can be open to anyone. Add those who should reach it to its allowlist instead.',
};

export async function showAgent(visit: Visit): Promise<DashboardAnswer> {
  return overviewOf(visit, []);
}

/** Who can invite and find the agent, and whether it starts sessions. */
export async function actAccess(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const policy = InboundPolicy.safeParse(form.one('inbound_policy')).data;
  const visibility = Visibility.safeParse(form.one('visibility')).data;
  const canInitiateSessions = form.one('can_initiate_sessions') === 'true';
  try {
    await change(visit, {
      ...(policy !== undefined && { inbound_policy: policy }),
      ...(visibility !== undefined && { visibility }),
      can_initiate_sessions: canInitiateSessions,
    });
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== 'FEATURE_NOT_AVAILABLE') throw error;
    const chosen = {
      ...(policy !== undefined && { inboundPolicy: policy }),
      ...(visibility !== undefined && { visibility }),
    };
    return overviewOf(visit, [PAID], { ...chosen, canInitiateSessions }, 403);
  }
  return moved(withNote(addressOf(visit), 'saved'));
}

export async function actPause(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const paused = form.one('paused') === 'true';
  await change(visit, { paused });
  return moved(withNote(addressOf(visit), paused ? 'paused' : 'resumed'));
}

async function change(visit: Visit, body: UpdateAgentRequest): Promise<void> {
  const { context, actor } = visit;
  const input = { path: agentPathOf(visit), body };
  await context.database.write((transaction) => updateAgent(context, actor, input, transaction));
}

async function overviewOf(
  visit: Visit,
  mistakes: readonly Mistake[],
  chosen: Partial<AccessValues> = {},
  status = 200,
): Promise<DashboardAnswer> {
  const { context, account, csrf, query } = visit;
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
    note: query.one('note'),
    mistakes,
    now: context.clock.now(),
    baseUrl: context.settings.addresses.baseUrl,
    tier: account.tier,
  });
  return page(view, { status });
}

const addressOf = ({ part }: Visit): string => `/dashboard/agents/${part('name')}`;
