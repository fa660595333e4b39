import type { ServiceContext } from '../core/context.js';
import type { Transaction } from '../core/database.js';
import { insertActivity } from '../store/activities.js';

/** The owner of an account can look these up later. An alert may be someone else's doing. */
export const ACTIVITY = {
  'signed-up': { label: 'Account created', isAlert: false },
  'signed-in': { label: 'Signed in', isAlert: false },
  'wrong-password': { label: 'Wrong password', isAlert: true },
  'passkey-added': { label: 'Passkey added', isAlert: false },
  'passkey-removed': { label: 'Passkey removed', isAlert: false },
  'passkey-copied': { label: 'Sign-in refused: there is a copy of this passkey', isAlert: true },
  'password-link': { label: 'Password set with a link from the operator', isAlert: true },
  'app-allowed': { label: 'App allowed', isAlert: false },
  'app-denied': { label: 'App denied', isAlert: false },
  'app-copied': { label: 'App signed out: someone else used a copy of its sign-in', isAlert: true },
  'app-disconnected': { label: 'App disconnected', isAlert: false },
  'apps-disconnected': { label: 'All apps disconnected', isAlert: false },
  'agent-created': { label: 'Agent created', isAlert: false },
  'agent-access': { label: 'Agent access changed', isAlert: false },
  'agent-paused': { label: 'Agent paused', isAlert: false },
  'agent-resumed': { label: 'Agent resumed', isAlert: false },
  'agent-profile': { label: 'Agent profile changed', isAlert: false },
  'webhook-set': { label: 'Webhook set', isAlert: false },
  'webhook-removed': { label: 'Webhook removed', isAlert: false },
  'agent-removed': { label: 'Agent removed', isAlert: false },
  'allowlist-changed': { label: 'Allowlist changed', isAlert: false },
  'blocks-changed': { label: 'Blocks changed', isAlert: false },
  'credential-created': { label: 'API credential created', isAlert: false },
  'credential-changed': { label: 'API credential changed', isAlert: false },
  'credential-rotated': { label: 'New secret for API credential', isAlert: false },
  'credential-revoked': { label: 'API credential revoked', isAlert: false },
  'name-changed': { label: 'Name changed', isAlert: false },
  'password-changed': { label: 'Password changed', isAlert: false },
  'push-on': { label: 'Push notifications turned on', isAlert: false },
  'push-off': { label: 'Push notifications turned off', isAlert: false },
  'browser-ended': { label: 'Browser signed out', isAlert: false },
  'browsers-ended': { label: 'All other browsers signed out', isAlert: false },
  'link-created': { label: 'Session link created', isAlert: false },
  'link-revoked': { label: 'Session link revoked', isAlert: false },
  'data-exported': { label: 'All data downloaded', isAlert: false },
} as const;
export type ActivityKind = keyof typeof ACTIVITY;

export interface Activity {
  readonly accountId: string;
  readonly kind: ActivityKind;
  /** The thing that the action affected. */
  readonly detail?: string;
  readonly address?: string;
  readonly browserName?: string;
}

const DETAIL_MAX_LENGTH = 200;

export async function recordActivity(
  { clock, ids }: Pick<ServiceContext, 'clock' | 'ids'>,
  transaction: Transaction,
  { accountId, kind, detail = '', address = '', browserName = '' }: Activity,
): Promise<void> {
  await insertActivity(transaction, {
    id: ids.ulid(),
    account_id: accountId,
    kind,
    detail: detail.slice(0, DETAIL_MAX_LENGTH),
    address: withoutMapping(address),
    browser_name: browserName,
    created_at: clock.now(),
  });
}

/** An IPv4 address in its usual notation. */
export function withoutMapping(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/, '');
}
