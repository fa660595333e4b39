import { join } from 'node:path';
import * as z from 'zod/mini';

import { readPrivateFile, removePrivateFile, writePrivateFile } from '../../kit/private-file.js';
import { randomToken } from '../../kit/random.js';
import type { Context } from '../context/context.js';
import { CliError, UsageError } from '../errors.js';

const LIFETIME_MS = 10 * 60_000;

const PendingSignIn = z.object({
  login_id: z.string(),
  base_url: z.string(),
  handle: z.nullable(z.string()),
  expires_at: z.number(),
  request: z.object({
    url: z.string(),
    issuer: z.string(),
    clientId: z.string(),
    redirectUri: z.string(),
    state: z.string(),
    codeVerifier: z.string(),
    scopes: z.array(z.string()),
    isIssuerExpected: z.boolean(),
  }),
});

/** A sign-in between its two steps. It is secret. */
export type PendingSignIn = z.infer<typeof PendingSignIn>;

/** Keeps a sign-in for its second step; one at a time, the newest. */
export async function keepPending(
  context: Context,
  pending: Omit<PendingSignIn, 'login_id' | 'expires_at'>,
): Promise<PendingSignIn> {
  const expires_at = context.clock.now() + LIFETIME_MS;
  const kept = { ...pending, login_id: `login_${randomToken(context.random, 9)}`, expires_at };
  await writePrivateFile(pathOf(context), JSON.stringify(kept));
  return kept;
}

/** The sign-in that was started and not yet finished. @throws UsageError */
export async function readPending(context: Context): Promise<PendingSignIn> {
  const text = await readPrivateFile(pathOf(context));
  const pending = text === undefined ? undefined : parsePending(text);
  if (pending === undefined || pending.expires_at < context.clock.now())
    throw new UsageError('No sign-in waits to be finished.', { next: ['asp', 'login', '--start'] });
  return pending;
}

function parsePending(text: string): PendingSignIn | undefined {
  try {
    return PendingSignIn.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

export async function forgetPending(context: Context): Promise<void> {
  await removePrivateFile(pathOf(context));
}

function pathOf({ paths }: Context): string {
  if (paths.stateDirectory !== undefined) return join(paths.stateDirectory, 'pending-sign-in.json');
  throw new CliError('ASP_STORE_UNAVAILABLE', {
    message: 'There is no place to keep the sign-in until it is finished.',
  });
}
