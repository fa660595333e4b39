import { join } from 'node:path';

import * as z from 'zod/mini';

import { listPrivateFiles, readPrivateFile, removePrivateFile, writePrivateFile } from '../../kit/private-file.js';
import type { Discovery } from '../oauth/discover.js';
import { registerClient } from '../oauth/register-client.js';
import { type LoginContext, lockContextOf, oauthContext } from './login-context.js';
import { withProcessLock } from './process-lock.js';
import { digest, storeUnavailable } from './secret-store.js';

const RETRIES = 4;
const Registration = z.object({ issuer: z.string(), clientId: z.string(), registeredAtMs: z.number() });

/** A client id of ours at one authorization server. */
export type Registration = z.infer<typeof Registration>;

/**
 * Our client id at an authorization server: registered once for this OS user, then reused; first logins that run at the same
 * time end up with one. @throws RequestError
 */
export async function obtainClientId(
  context: LoginContext,
  discovery: Discovery,
  wish: { readonly clientName: string; readonly scopes: readonly string[] },
  signal?: AbortSignal,
): Promise<string> {
  const { issuer } = discovery;
  const kept = await findRegistration(context, issuer);
  if (kept !== undefined) return kept.clientId;
  const register = async (): Promise<string> => {
    const meanwhile = await findRegistration(context, issuer);
    if (meanwhile !== undefined) return meanwhile.clientId;
    const clientId = await registerClient(oauthContext(context, discovery, RETRIES), wish, signal);
    const registration: Registration = { issuer, clientId, registeredAtMs: context.transport.clock.now() };
    await writePrivateFile(pathOf(context, issuer), JSON.stringify(registration)).catch((error: unknown) => {
      throw storeUnavailable('The client id could not be kept.', error);
    });
    return clientId;
  };
  return withProcessLock(lockContextOf(context), `registration\n${issuer}`, register, signal);
}

/** The kept client id of an authorization server, if there is one. */
export function findRegistration(context: LoginContext, issuer: string): Promise<Registration | undefined> {
  return readRegistration(pathOf(context, issuer));
}

async function readRegistration(path: string): Promise<Registration | undefined> {
  try {
    const text = await readPrivateFile(path);
    return text === undefined ? undefined : Registration.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** Every client id that this OS user has registered, by authorization server. */
export async function listRegistrations(context: LoginContext): Promise<readonly Registration[]> {
  const paths = await listPrivateFiles(join(context.directories.state, 'clients'), '.json');
  const kept = await Promise.all(paths.map(readRegistration));
  return kept
    .filter((registration) => registration !== undefined)
    .sort((left, right) => (left.issuer < right.issuer ? -1 : 1));
}

/** Forgets a client id that the server does not know any more. Whether there was one. */
export function forgetRegistration(context: LoginContext, issuer: string): Promise<boolean> {
  return removePrivateFile(pathOf(context, issuer));
}

function pathOf(context: LoginContext, issuer: string): string {
  return join(context.directories.state, 'clients', `${digest(issuer)}.json`);
}
