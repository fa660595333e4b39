import { createHash } from 'node:crypto';

import { randomToken } from '../../kit/random.js';
import type { Parameters } from '../authorization-server/parameters.js';
import type { ServiceContext } from '../context.js';
import { withIdempotency } from '../limits/idempotency.js';
import type { Transaction } from '../store/database.js';
import type { Visit } from './visit.js';

const KEY_BYTES = 16;

/** A form that makes something carries one of these, so that sending it twice makes one thing. */
export function createFormKey({ random }: Pick<ServiceContext, 'random'>): string {
  return randomToken(random, KEY_BYTES);
}

/** What a form says, whoever sends it how often; a form that was corrected is another one. */
export function keyOf(form: Parameters, fields: readonly string[]): string {
  const said = fields.map((field) => form.every(field));
  return createHash('sha256')
    .update(JSON.stringify([form.one('key') ?? '', said]))
    .digest('base64url');
}

/** Runs `work` the first time a form is sent, and gives its answer every time. */
export async function once(
  { context, account }: Visit,
  form: { readonly path: string; readonly key: string },
  work: (transaction: Transaction) => Promise<string>,
): Promise<string> {
  const request = { actorId: account.id, endpoint: `POST ${form.path}`, key: form.key, fingerprint: '' };
  const answer = await withIdempotency(context, request, async (transaction) => ({
    status: 201,
    body: await work(transaction),
  }));
  return answer.body;
}
