import { CreateAgentRequest } from '../../../wire/agent.js';
import { createAgent } from '../../agents/create-agent.js';
import type { Parameters } from '../../authorization-server/parameters.js';
import { renderNewAgent } from '../../pages/dashboard/agents-page.js';
import type { Mistake } from '../../pages/form.js';
import { ServiceError } from '../../service-error.js';
import { createFormKey, keyOf, once } from '../once.js';
import { type DashboardAnswer, mistaken, movedWithNote, page, type Refusal, type Visit } from '../visit.js';
import { linesOf, PROFILE_MISTAKE, readMistakes } from './profile-form.js';

const PATH = '/dashboard/new-agent';
const TAKEN: Mistake = { field: 'name', message: 'This handle is or was in use. Choose another.' };

export async function showNewAgent(visit: Visit): Promise<DashboardAnswer> {
  return page(viewOf(visit, [], {}));
}

export async function actNewAgent(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context, actor } = visit;
  const { name, displayName, description } = readForm(form);
  const read = CreateAgentRequest.safeParse({ local_name: name, display_name: displayName, description });
  if (!read.success) return newAgentAgain(visit, form, mistaken(...readMistakes(read.error.issues, MISTAKE)));
  const key = keyOf(form, ['name', 'display_name', 'description']);
  try {
    const created = await once(visit, { path: PATH, key }, async (transaction) => {
      return (await createAgent(context, actor, { path: {}, body: read.data }, transaction)).local_name;
    });
    return movedWithNote(visit, `/dashboard/agents/${created}`, 'created');
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== 'DUPLICATE_HANDLE') throw error;
    return newAgentAgain(visit, form, mistaken(TAKEN));
  }
}

export async function newAgentAgain(visit: Visit, form: Parameters, refusal: Refusal): Promise<DashboardAnswer> {
  return page(viewOf(visit, refusal.mistakes, readForm(form)), { status: refusal.status });
}

function readForm(form: Parameters) {
  return {
    name: (form.one('name') ?? '').trim(),
    displayName: (form.one('display_name') ?? '').trim(),
    description: linesOf(form.one('description')),
  };
}

const MISTAKE: Readonly<Record<string, Mistake>> = {
  local_name: { field: 'name', message: 'Enter a handle of lowercase letters, digits, underscores and hyphens.' },
  ...PROFILE_MISTAKE,
};

interface Filled {
  readonly name?: string;
  readonly displayName?: string;
  readonly description?: string | null;
}

function viewOf({ context, account, csrf }: Visit, mistakes: readonly Mistake[], filled: Filled) {
  const { description, ...names } = filled;
  return renderNewAgent({
    username: account.username,
    csrf,
    key: createFormKey(context),
    mistakes,
    filled: { ...names, ...(description != null && { description }) },
  });
}
