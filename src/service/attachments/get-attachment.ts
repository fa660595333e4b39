import type { PathOf, ReplyOf } from '../../wire/endpoint.js';
import { PENDING_ATTACHMENT_LIFETIME_S } from '../../wire/limit.js';
import type { AgentActor, ServiceContext } from '../context.js';
import type { AccountView } from '../events/account-view.js';
import { ServiceError } from '../service-error.js';
import { type AttachmentRow, findAttachment, findAttachmentViewer, listInvitations } from '../store/attachment-rows.js';
import type { Query } from '../store/database.js';
import { listEventsAboutAgentsOf } from '../store/event-rows.js';
import { signDownload } from './download-url.js';

export async function getAttachment(
  context: ServiceContext,
  actor: AgentActor,
  input: { path: PathOf<'getAttachment'> },
  query: Query,
): Promise<ReplyOf<'getAttachment'>> {
  const row = await findAttachment(query, input.path.attachment_id);
  if (row === undefined || !(await maySee(context, query, actor.agentId, row))) throw new ServiceError('NOT_FOUND');
  return {
    id: row.id,
    filename: row.filename,
    content_type: row.content_type,
    size: row.size,
    ...(await signDownload(context, query, row.id)),
  };
}

const INVITATIONS_READ_MAX = 100;

/** A signed address of an attachment in a session that an account looks at. */
export async function signAccountDownload(
  context: ServiceContext,
  view: AccountView,
  attachmentId: string,
  query: Query,
): Promise<string> {
  const sessionId = view.participations[0].session_id;
  const row = await findAttachment(query, attachmentId);
  if (row?.session_id !== sessionId || !(await isInView(query, view, row))) throw new ServiceError('NOT_FOUND');
  return (await signDownload(context, query, row.id)).url;
}

async function isInView(query: Query, view: AccountView, { sequence }: AttachmentRow): Promise<boolean> {
  if (sequence === null) return false;
  if (sequence <= view.through) return true;
  const { session_id: sessionId } = view.participations[0];
  const own = await listEventsAboutAgentsOf(query, view.accountId, sessionId, view.through, INVITATIONS_READ_MAX);
  return own.some(({ payload }) => carriesMessage(payload, sequence));
}

/** While pending its uploader; then whoever may see the message now (wire: Content and attachments; spec: Eligibility filtering). */
async function maySee(
  context: Pick<ServiceContext, 'clock'>,
  query: Query,
  agentId: string,
  row: AttachmentRow,
): Promise<boolean> {
  const { session_id: sessionId, sequence } = row;
  if (sessionId === null || sequence === null)
    return row.agent_id === agentId && row.created_at + PENDING_ATTACHMENT_LIFETIME_S * 1000 > context.clock.now();
  const viewer = await findAttachmentViewer(query, sessionId, agentId);
  if (viewer === undefined) return false;
  if (viewer.status === 'joined') return true;
  if (viewer.status === 'left' && viewer.joined_at !== null) return sequence <= (viewer.left_sequence ?? 0);
  return (await listInvitations(query, sessionId, agentId)).some((payload) => carriesMessage(payload, sequence));
}

/** An invitation to a one-shot session carries its only message whole. */
function carriesMessage(payload: string, sequence: number): boolean {
  const { initial_message: message } = JSON.parse(payload) as { initial_message?: { sequence: number } };
  return message?.sequence === sequence;
}
