import { MESSAGE_BODY_MAX_BYTES, TOPIC_MAX_LENGTH } from '../../../wire/limit.js';
import { DASHBOARD, SENT_BY } from '../../../wire/message.js';
import type { Query } from '../../core/database.js';
import { ServiceError } from '../../core/errors.js';
import { writeAs } from '../../http/pipeline.js';
import type { Parameters } from '../../oauth/parameters.js';
import { type AgentRecordRow, listAgentsOfAccount } from '../../store/agents.js';
import { type Field, hidden, type Mistake, renderArea, renderField, renderProblem, toTitle } from '../form.js';
import { html } from '../html.js';
import { actingAs } from './agent.js';
import { renderAgentChoice, splitLines } from './agents.js';
import { findMistakenHandles, splitHandles, TEXT_MAX_LENGTH } from './compose.js';
import { renderEmpty, renderTrail } from './frame.js';
import { NEW_SESSION_PATH, pathOfSession } from './sessions.js';
import { findSeenSession } from './transcript.js';
import {
  createFormKey,
  type DashboardAnswer,
  mistaken,
  movedWithNote,
  refused,
  toKey,
  UNREFUSED,
  type Visit,
} from './visit.js';

/** The form is empty, or the address has filled it in. */
export async function showNewSession(
  visit: Visit,
  form: Parameters = visit.query,
  refusal = UNREFUSED,
): Promise<DashboardAnswer> {
  const { account, csrf, context } = visit;
  const { mistakes } = refusal;
  const { agent, handles, topic, text } = readFilled(form);
  const agents = await context.database.read((query) => listAgentsOfAccount(query, account.id));
  const to: Field = {
    id: 'handles',
    name: 'handles',
    label: 'To',
    value: handles,
    hint: html`Handles such as <code>@bob.helper</code>. Separate several with spaces.`,
    autocomplete: 'off',
    isIdentifier: true,
  };
  const about: Field = {
    id: 'topic',
    name: 'topic',
    label: 'Topic (optional)',
    value: topic,
    autocomplete: 'off',
    maxLength: TOPIC_MAX_LENGTH,
    isRequired: false,
  };
  const rendered = html`<form method="post" action="${NEW_SESSION_PATH}" enctype="multipart/form-data" class="card stack" aria-label="New session">${hidden({ csrf, key: createFormKey(context) })}
${renderAgentChoice(account, agents, { label: 'From', chosen: agent, mistakes })}${renderField(to, mistakes)}${renderField(about, mistakes)}
${renderArea({ id: 'text', name: 'text', label: 'First message (optional)', value: text, maxLength: TEXT_MAX_LENGTH, rows: 4, hint: 'Markdown works. You can attach files once the session has started.' }, mistakes)}
<div class="row-actions"><button class="button primary">Start session</button><a class="button plain" href="/dashboard/sessions">Cancel</a></div></form>`;
  const noAgents = renderEmpty(
    'You need an agent first',
    html`<p>A session is a conversation between agents, and you have no agents yet.</p><p><a class="button primary" href="/dashboard/new-agent">Create an agent</a></p>`,
  );
  const main = html`<div class="narrow stack">${renderTrail('Sessions', '/dashboard/sessions')}<h1>New session</h1>
${renderProblem('The session was not started', mistakes)}${agents.length === 0 ? noAgents : rendered}</div>`;
  return refused({ title: toTitle('New session', mistakes), section: 'sessions', main }, refusal);
}

function readFilled(form: Parameters) {
  return {
    /** The name of an own agent. */
    agent: form.one('agent'),
    handles: (form.one('handles') ?? '').trim(),
    topic: (form.one('topic') ?? '').trim(),
    text: splitLines(form.one('text')) ?? '',
  };
}

/** Starts a session as one of the account's agents. Its first message is marked as written by a person. */
export async function actNewSession(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context, account } = visit;
  const { agent: name, handles, topic, text } = readFilled(form);
  const agent = await context.database.read((query) => findOwnAgent(query, account.id, name));
  const invite = splitHandles(handles);
  const body = {
    invite,
    ...(topic !== '' && { topic }),
    ...(text.trim() !== '' && { initial_message: { content: text, metadata: { [SENT_BY]: DASHBOARD } } }),
  };
  const mistakes = findMistakes(agent, invite, Buffer.byteLength(JSON.stringify(body)));
  if (agent === undefined || mistakes.length > 0) return showNewSession(visit, form, mistaken(...mistakes));
  try {
    const key = toKey(form, ['agent', 'handles', 'topic', 'text']);
    const write = { operation: 'createSession', path: {}, body, key } as const;
    const { session_id: id } = await writeAs(context, actingAs(account.id, agent), write);
    const seen = await context.database.read((query) => findSeenSession(query, account.id, id));
    const isComplete = seen === undefined || seen.session.participants.length > new Set(invite).size;
    return movedWithNote(visit, pathOfSession(id), isComplete ? 'started' : 'partly-started');
  } catch (error) {
    const mistake = error instanceof ServiceError ? toMistake(error) : undefined;
    if (mistake === undefined) throw error;
    return showNewSession(visit, form, mistaken(mistake));
  }
}

async function findOwnAgent(query: Query, accountId: string, name = ''): Promise<AgentRecordRow | undefined> {
  const found = await listAgentsOfAccount(query, accountId);
  return found.find((one) => one.name === name);
}

function findMistakes(agent: AgentRecordRow | undefined, invite: readonly string[], size: number): Mistake[] {
  const mistakes: Mistake[] = [];
  if (agent === undefined) mistakes.push({ field: 'agent', message: 'Choose one of your agents.' });
  const wrong = findMistakenHandles(invite);
  if (wrong !== undefined) mistakes.push(invitee(wrong));
  if (size > MESSAGE_BODY_MAX_BYTES)
    mistakes.push({
      field: 'text',
      message: 'The message is too long. Start the session, then attach the text as a file.',
    });
  return mistakes;
}

const invitee = (message: string): Mistake => ({ field: 'handles', message });

/** Undefined: the person who filled in the form can do nothing about it. */
function toMistake({ code, message }: ServiceError): Mistake | undefined {
  if (code === 'NOT_FOUND')
    return invitee('None of them can be invited. They may not exist, or they may not accept this agent.');
  if (code === 'FORBIDDEN')
    return { field: 'agent', message: 'This agent can’t start sessions. Change that on its page.' };
  return code === 'VALIDATION_ERROR' ? invitee(message) : undefined;
}
