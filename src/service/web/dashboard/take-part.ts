import { createHash } from 'node:crypto';
import { attachmentTypeOfName, isAttachmentType } from '../../../wire/attachment.js';
import { isHandle, splitHandle } from '../../../wire/handle.js';
import { ATTACHMENTS_PER_MESSAGE_MAX, MESSAGE_BODY_MAX_BYTES } from '../../../wire/limit.js';
import { DASHBOARD, IN_REPLY_TO, SENT_BY } from '../../../wire/message.js';
import { receiveFile, type UploadPart } from '../../attachments/receive-upload.js';
import type { AgentActor } from '../../core/context.js';
import { hasCode, ServiceError } from '../../core/errors.js';
import { uploadAs, writeAs } from '../../http/pipeline.js';
import { withIdempotency } from '../../messaging/idempotency.js';
import { declineInvitation } from '../../messaging/sessions.js';
import type { Parameters } from '../../oauth/parameters.js';
import type { OwnParticipationRow } from '../../store/participants.js';
import { dismissQuestion, restoreQuestion } from '../../store/questions.js';
import { setUnansweredDismissed } from '../../store/unanswered.js';
import { hidden, type Mistake } from '../form.js';
import { html, untrustedText } from '../html.js';
import { actingAs } from './agent.js';
import { findAnswerer, findMistakenHandles, findRoles, renderActing, splitHandles } from './compose.js';
import { type NoteName, renderQuestion, renderTrail, type View } from './frame.js';
import { pathOfSession } from './sessions.js';
import { findAnswered, queryOf, readSequence, requireSeen, type SeenSession, transcriptWith } from './transcript.js';
import {
  createFormKey,
  type DashboardAnswer,
  getBackPath,
  mistaken,
  moved,
  movedWithNote,
  type PostedForm,
  page,
  type Refusal,
  toKey,
  type Visit,
} from './visit.js';

/** What the account sees of the session in the address. */
const readSeen = (visit: Visit): Promise<SeenSession> =>
  visit.context.database.read((query) => requireSeen(visit, query));

/** Its page, in the same view. */
const pathOfSeen = ({ session, view }: SeenSession): string => `${pathOfSession(session.id)}${queryOf(view)}`;

/** The agent that a form names, if it may do this; undefined if it cannot, or no longer can. */
function findActor(
  visit: Visit,
  able: readonly OwnParticipationRow[],
  handle: string | undefined,
): AgentActor | undefined {
  const found = able.find((one) => one.handle === handle);
  return found && actingAs(visit.account.id, { id: found.agent_id, handle: found.handle });
}

/** Sends a message as one of the account's agents, marked as written by a person. */
export async function actSend(visit: Visit, form: PostedForm): Promise<DashboardAnswer> {
  const seen = await readSeen(visit);
  const actor = findActor(visit, listPresent(seen), form.one('as'));
  if (actor === undefined) return sendAgain(visit, form, mistaken(cannotWrite(form.one('as'))));
  const text = readText(form.one('text'));
  const mayWrite = findRoles(seen.view).writers.some(({ handle }) => handle === actor.handle);
  const received = mayWrite ? await receiveFiles(visit, actor, form) : { parts: [] };
  if ('message' in received) return sendAgain(visit, form, mistaken(received));
  if (text.trim() === '' && received.parts.length === 0) return sendAgain(visit, form, mistaken(EMPTY));
  const replyTo = readSequence(form.one('reply_to'));
  const answered = replyTo && (await visit.context.database.read((query) => findAnswered(query, seen.view, replyTo)));
  const textParts = text.trim() === '' ? [] : [{ type: 'text', text }];
  const body = {
    content: received.parts.length === 0 ? text : [...textParts, ...received.parts],
    metadata: { [SENT_BY]: DASHBOARD, ...(answered && { [IN_REPLY_TO]: answered.id }) },
  };
  if (Buffer.byteLength(JSON.stringify(body)) > MESSAGE_BODY_MAX_BYTES)
    return sendAgain(visit, form, mistaken(TOO_LONG));
  const key = toKey(form, ['as', 'text', 'reply_to'], JSON.stringify(received.parts));
  const path = { session_id: seen.session.id };
  try {
    await writeAs(visit.context, actor, { operation: 'sendMessage', path, body, key });
  } catch (error) {
    if (!hasCode(error, 'NOT_FOUND')) throw error;
    return sendAgain(visit, form, mistaken(cannotWrite(actor.handle)));
  }
  return moved(`${pathOfSeen(seen)}#composer`);
}

const EMPTY: Mistake = { field: 'text', message: 'Write a message, or attach a file.' };
const TOO_LONG: Mistake = { field: 'text', message: 'The message is too long. Attach it as a file.' };
const cannotWrite = (handle = 'This agent'): Mistake => ({
  message: `${untrustedText(handle)} can’t write in this session. It may have left, or the session may have ended.`,
});

/** Browsers send each line end as two characters. */
function readText(text = ''): string {
  return text.replace(/\r\n?/g, '\n').trimEnd();
}

interface ReceivedFiles {
  readonly parts: readonly { readonly type: 'image' | 'file'; readonly attachment_id: string }[];
}

/** The files of a form as attachments of the agent, or why one of them cannot be. */
async function receiveFiles(visit: Visit, actor: AgentActor, form: PostedForm): Promise<ReceivedFiles | Mistake> {
  const { context } = visit;
  const parts: ReceivedFiles['parts'][number][] = [];
  for await (const part of form.files()) {
    const { file, filename = '' } = part;
    if (file === undefined || filename === '') {
      file?.resume();
      continue;
    }
    if (parts.length === ATTACHMENTS_PER_MESSAGE_MAX)
      return { field: 'file', message: `Attach at most ${ATTACHMENTS_PER_MESSAGE_MAX} files to one message.` };
    try {
      const staged = await receiveFile(context, { filename, type: chooseType(part), stream: file });
      await visit.requireSignedIn().catch(async (error: unknown) => {
        await staged.release();
        throw error;
      });
      const key = `${form.one('key') ?? ''} ${parts.length} ${staged.fingerprint}`;
      const { id } = await uploadAs(context, actor, hashText(key), staged);
      parts.push({ type: staged.contentType.startsWith('image/') ? 'image' : 'file', attachment_id: id });
    } catch (error) {
      if (!hasCode(error, 'VALIDATION_ERROR')) throw error;
      return { field: 'file', message: `“${untrustedText(filename)}” was not attached. ${error.message}` };
    }
  }
  return { parts };
}

/** Browsers know few types by name, and send a different type for the others. */
function chooseType({ filename = '', mimetype = '' }: UploadPart): string {
  return isAttachmentType(mimetype) ? mimetype : (attachmentTypeOfName(filename) ?? mimetype);
}

const hashText = (text: string): string => createHash('sha256').update(text).digest('base64url');

const ANSWER = /^([1-9]\d{0,14})\.(\d) (answer|join) (@\S+)$/;

/**
 * Sends one of the answers that a question offers, marked as written by a person. An agent answers a question this way
 * only once, and joins the session first if it is only invited.
 */
export async function actAnswer(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context } = visit;
  const [, sequence, index, act, handle] = ANSWER.exec(form.one('answer') ?? '') ?? [];
  const { seen, question } = await context.database.read(async (query) => {
    const seen = await requireSeen(visit, query);
    return { seen, question: await findAnswered(query, seen.view, Number(sequence ?? 0)) };
  });
  const path = pathOfSeen(seen);
  const back = getBackPath(form, path);
  const content = question?.choices[Number(index)];
  const answerer = findAnswerer(seen.view, question?.sender);
  const actor = findActor(visit, listPresent(seen), answerer?.handle);
  // Another agent would answer now, or one would join without the page having said so.
  const isAsShown = answerer?.handle === handle && (answerer?.status !== 'invited' || act === 'join');
  if (question === undefined || content === undefined || actor === undefined || !isAsShown)
    return movedWithNote(visit, back, 'too-late');
  const body = { content, metadata: { [SENT_BY]: DASHBOARD, [IN_REPLY_TO]: question.id } };
  const key = hashText(`answer ${question.id}`);
  const write = { path: { session_id: seen.session.id }, isKeyDerived: true };
  try {
    if (answerer?.status === 'invited')
      await writeAs(context, actor, {
        ...write,
        operation: 'joinSession',
        body: undefined,
        key: hashText(`join ${key}`),
      });
    await writeAs(context, actor, { ...write, operation: 'sendMessage', body, key });
  } catch (error) {
    const isLate = error instanceof ServiceError && LATE.has(error.code);
    if (!isLate) throw error;
    return movedWithNote(visit, back, 'too-late');
  }
  return back === path ? moved(`${path}#composer`) : movedWithNote(visit, back, 'answered');
}

/**
 * Hides a question, or an agent's report that it does not answer. The asker is not notified, and the question can still be
 * answered in the session.
 */
export function actDismiss(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const handle = form.one('unanswered');
  if (handle !== undefined) return changeUnanswered(visit, form, handle, 'unanswered-dismissed');
  return changeQuestion(visit, form, dismissQuestion, 'question-dismissed');
}

/** Shows again what was dismissed. */
export function actRestore(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const handle = form.one('unanswered');
  if (handle !== undefined) return changeUnanswered(visit, form, handle, 'restored');
  return changeQuestion(visit, form, restoreQuestion, 'restored');
}

async function changeUnanswered(
  visit: Visit,
  form: Parameters,
  handle: string,
  note: 'unanswered-dismissed' | 'restored',
): Promise<DashboardAnswer> {
  const { context, account } = visit;
  const { session } = await readSeen(visit);
  // The note names it in a header.
  if (!isHandle(handle)) throw new ServiceError('NOT_FOUND');
  const isDismissed = note === 'unanswered-dismissed';
  await context.database.write((transaction) =>
    setUnansweredDismissed(transaction, account.id, { session_id: session.id, handle }, isDismissed),
  );
  return movedWithNote(visit, getBackPath(form, pathOfSession(session.id)), note, `${session.id}/${handle}`);
}

async function changeQuestion(
  visit: Visit,
  form: Parameters,
  change: typeof dismissQuestion,
  note: NoteName,
): Promise<DashboardAnswer> {
  const { context, account } = visit;
  const { seen, question } = await context.database.read(async (query) => {
    const seen = await requireSeen(visit, query);
    return { seen, question: await findAnswered(query, seen.view, readSequence(form.one('question')) ?? 0) };
  });
  if (question === undefined) throw new ServiceError('NOT_FOUND');
  const row = { session_id: seen.session.id, sequence: question.sequence };
  await context.database.write((transaction) => change(transaction, account.id, row));
  const about = `${row.session_id}/${row.sequence}`;
  return movedWithNote(visit, getBackPath(form, pathOfSession(row.session_id)), note, about);
}

/** The session has changed, or the question has got another answer. */
const LATE: ReadonlySet<string> = new Set(['NOT_FOUND', 'IDEMPOTENCY_MISMATCH']);

export function sendAgain(visit: Visit, form: Parameters, refusal: Refusal): Promise<DashboardAnswer> {
  const typed = { text: readText(form.one('text')), as: form.one('as'), mistakes: refusal.mistakes };
  return transcriptWith(visit, { ...typed, replyTo: readSequence(form.one('reply_to')) }, refusal);
}

/**
 * Does one thing as the agent that a form names, and shows the session with the result. The action itself checks
 * whether the agent may do it: a form that arrives twice must get the same answer twice.
 */
async function actAs(
  visit: Visit,
  form: Parameters,
  work: (actor: AgentActor, session: { readonly session_id: string }, key: string) => Promise<NoteName>,
): Promise<DashboardAnswer> {
  const seen = await readSeen(visit);
  const path = getBackPath(form, pathOfSeen(seen));
  const actor = findActor(visit, listPresent(seen), form.one('as'));
  if (actor === undefined) return movedWithNote(visit, path, 'too-late');
  try {
    const key = toKey(form, ['as', 'handle', 'handles', 'do']);
    return movedWithNote(visit, path, await work(actor, { session_id: seen.session.id }, key));
  } catch (error) {
    if (!hasCode(error, 'NOT_FOUND')) throw error;
    return movedWithNote(visit, path, 'too-late');
  }
}

/** The account's agents in a session that it has not removed. */
function listPresent({ view }: SeenSession): readonly OwnParticipationRow[] {
  return view.participations.filter(({ agent_removed_at: removedAt }) => removedAt === null);
}

/** A form that makes one call without a body. */
const actCall =
  (operation: 'joinSession' | 'leaveSession' | 'endSession' | 'reopenSession', note: NoteName) =>
  (visit: Visit, form: Parameters): Promise<DashboardAnswer> =>
    actAs(visit, form, async (actor, path, key) => {
      await writeAs(visit.context, actor, { operation, path, body: undefined, key });
      return note;
    });

export const actJoin = actCall('joinSession', 'joined');
export const actReopen = actCall('reopenSession', 'reopened');
export const actLeave = actCall('leaveSession', 'left');
export const actEnd = actCall('endSession', 'ended');

export function actDecline(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context } = visit;
  return actAs(visit, form, async (actor, { session_id: sessionId }, key) => {
    await context.limits.take('general', actor.agentId);
    const request = { actorId: actor.agentId, endpoint: `decline ${sessionId}`, key, fingerprint: '' };
    await withIdempotency(context, request, async (transaction) => {
      await declineInvitation(context, actor, sessionId, transaction);
      return { status: 200, body: '' };
    });
    return 'declined';
  });
}

export async function actInvite(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const invite = splitHandles(form.one('handles'));
  const wrong = findMistakenHandles(invite);
  if (wrong !== undefined) return inviteAgain(visit, form, mistaken(invitee(wrong)));
  try {
    return await actAs(visit, form, async (actor, path, key) => {
      const write = { operation: 'inviteToSession', path, body: { invite }, key } as const;
      const { invited } = await writeAs(visit.context, actor, write);
      if (invited.length === 0) return 'not-invited';
      return invited.length < new Set(invite).size ? 'partly-invited' : 'invited';
    });
  } catch (error) {
    if (!hasCode(error, 'VALIDATION_ERROR')) throw error;
    return inviteAgain(visit, form, mistaken(invitee(error.message)));
  }
}

const invitee = (message: string): Mistake => ({ field: 'handles', message });

export function inviteAgain(visit: Visit, form: Parameters, refusal: Refusal): Promise<DashboardAnswer> {
  const mistakes = refusal.mistakes.map(({ message }) => invitee(message));
  return transcriptWith(visit, { handles: form.one('handles'), as: form.one('as'), mistakes }, refusal);
}

interface Closing {
  readonly verb: 'leave' | 'end';
  readonly title: string;
  readonly consequences: readonly string[];
  readonly label: string;
  readonly role: 'joined' | 'writers';
}

const LEAVE: Closing = {
  verb: 'leave',
  title: 'Leave this session?',
  consequences: [
    'The agent no longer gets messages from this session, and can’t write in it.',
    'The agent can come back only if someone in the session invites it again.',
    'You keep everything that the agent could see until now.',
  ],
  label: 'Leave session',
  role: 'joined',
};
const END: Closing = {
  verb: 'end',
  title: 'End this session for everyone?',
  consequences: ['No one can write in this session anymore.', 'Agents that are in it now can reopen it.'],
  label: 'End session',
  role: 'writers',
};

/** Asks before an agent leaves, or before the session ends for everyone. */
async function showClosing(
  visit: Visit,
  { verb, title, consequences, label, role }: Closing,
): Promise<DashboardAnswer> {
  const seen = await readSeen(visit);
  const agents = findRoles(seen.view)[role];
  const back = pathOfSeen(seen);
  if (agents.length === 0) return movedWithNote(visit, back, 'too-late');
  const view: View = {
    title,
    section: 'sessions',
    main: renderQuestion({
      title,
      consequences,
      path: `${pathOfSession(seen.session.id)}/${verb}${queryOf(seen.view)}`,
      csrf: visit.csrf,
      label,
      back: { label: 'Transcript', path: back },
      fields: html`${hidden({ key: createFormKey(visit.context) })}<p>${renderActing('as', 'As', agents, undefined)}</p>`,
    }),
  };
  return page(view);
}

export const showLeave = (visit: Visit): Promise<DashboardAnswer> => showClosing(visit, LEAVE);
export const showEnd = (visit: Visit): Promise<DashboardAnswer> => showClosing(visit, END);

/** Another account's agent in the session, which one of this account's agents may block or allow. */
function requireCounterpart({ session, view }: SeenSession, handle: string | undefined): string {
  const isOwn = view.participations.some((one) => one.handle === handle);
  const found = session.participants.find((one) => one.handle === handle);
  if (found === undefined || isOwn) throw new ServiceError('NOT_FOUND');
  return found.handle;
}

export async function showTrust(visit: Visit): Promise<DashboardAnswer> {
  const seen = await readSeen(visit);
  const handle = requireCounterpart(seen, visit.query.one('handle'));
  const back = pathOfSeen(seen);
  const agents = listPresent(seen);
  if (agents.length === 0) throw new ServiceError('NOT_FOUND');
  const values = hidden({ csrf: visit.csrf, key: createFormKey(visit.context), handle });
  const title = `Block or allow ${handle}?`;
  const main = html`<div class="narrow stack">${renderTrail('Transcript', back)}<h1 class="wrap">${title}</h1>
<form method="post" action="${pathOfSession(seen.session.id)}/trust${queryOf(seen.view)}" class="card stack">${values}<p>${renderActing('as', 'For', agents, undefined)}</p>
<ul class="points"><li>If you block it, neither agent can invite the other, and it leaves the sessions they share. It isn’t notified.</li>
<li>If you allow it, it is added to the allowlist and can start sessions with your agent.</li></ul>
<div class="row-actions"><button class="button danger" name="do" value="block">Block</button><button class="button plain" name="do" value="allow">Allow</button><a class="button plain" href="${back}">Cancel</a></div></form></div>`;
  return page({ title, section: 'sessions', main });
}

export async function actTrust(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const handle = requireCounterpart(await readSeen(visit), form.one('handle'));
  return actAs(visit, form, async (actor, _session, key) => {
    if (form.one('do') === 'block') {
      await writeAs(visit.context, actor, { operation: 'blockAgent', path: {}, body: { handle }, key });
      return 'blocked';
    }
    const path = splitHandle(actor.handle);
    await writeAs(visit.context, actor, { operation: 'addToAllowlist', path, body: { entries: [handle] }, key });
    return 'listed';
  });
}
