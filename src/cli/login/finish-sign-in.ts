import type { Login, StoreKind } from '../../client/credentials/login.js';
import { readCallback } from '../../client/oauth/callback.js';
import type { Context } from '../context/context.js';
import { UsageError } from '../errors.js';
import { forgetPending, readPending } from './pending-sign-in.js';
import { prepareSignIn } from './prepare-sign-in.js';
import { completeSignIn } from './sign-in.js';

const ADDRESS_MAX_LENGTH = 16_384;

/** The second of two steps: the address of the redirect completes the sign-in that was started. */
export async function finishSignIn(context: Context, address: string, store: StoreKind | undefined): Promise<Login> {
  const pending = await readPending(context);
  const callback = readCallback(pending.request, (address === '-' ? await readInput(context) : address).trim());
  if (callback.kind === 'foreign')
    throw new UsageError('That is not the address this sign-in redirects to.', {
      why: 'copy the whole address bar; it starts with http://127.0.0.1:…/callback.',
      next: ['asp', 'login', '--finish', '-'],
    });
  const { scopes } = pending.request;
  const signIn = await prepareSignIn(context, { handle: pending.handle ?? undefined, scopes, store }, pending.base_url);
  // A code works once: whatever comes of it, this sign-in is over.
  await forgetPending(context);
  return completeSignIn(signIn, pending.request, callback);
}

async function readInput({ streams, signal }: Context): Promise<string> {
  let text = '';
  for await (const bytes of streams.stdin.read(signal)) {
    text += Buffer.from(bytes).toString('utf8');
    if (text.includes('\n') || text.length > ADDRESS_MAX_LENGTH) break;
  }
  return text.slice(0, ADDRESS_MAX_LENGTH);
}
