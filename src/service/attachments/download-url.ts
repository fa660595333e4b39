import { isId } from '../../wire/id.js';
import { ATTACHMENT_URL_LIFETIME_S } from '../../wire/limit.js';
import type { ServiceContext } from '../context.js';
import type { Query } from '../store/database.js';
import { isSeal, seal } from '../store/service-key.js';

/** Where downloads are, below the web origin. */
export const DOWNLOAD_PATH = '/attachments';

const EXPIRES = /^[1-9]\d{12,14}$/;

/** Whoever holds the address may read the file until it expires (wire: Content and attachments). */
export async function signDownload(
  context: Pick<ServiceContext, 'clock' | 'settings'>,
  query: Query,
  attachmentId: string,
): Promise<{ url: string; url_expires_at: number }> {
  const expiresAt = context.clock.now() + ATTACHMENT_URL_LIFETIME_S * 1000;
  const signature = (await seal(query, 'download', `${attachmentId} ${expiresAt}`)).toString('base64url');
  const url = `${context.settings.addresses.webUrl}${DOWNLOAD_PATH}/${attachmentId}?expires=${expiresAt}&signature=${signature}`;
  return { url, url_expires_at: expiresAt };
}

/** Whether these are the id and the query of an address that was signed here and has not expired. */
export async function isSignedDownload(
  context: Pick<ServiceContext, 'clock'>,
  query: Query,
  given: { readonly id: unknown; readonly expires: unknown; readonly signature: unknown },
): Promise<boolean> {
  const { id, expires, signature } = given;
  if (typeof id !== 'string' || typeof expires !== 'string' || typeof signature !== 'string') return false;
  if (!isId('attachment', id) || !EXPIRES.test(expires)) return false;
  const isOurs = isSeal(signature, await seal(query, 'download', `${id} ${expires}`));
  return isOurs && context.clock.now() < Number(expires);
}
