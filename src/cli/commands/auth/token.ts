import type { Resource } from '../../../client/credentials/credential.js';
import type { Context } from '../../context/context.js';
import type { Words } from '../../words/words.js';

export interface TokenOptions {
  readonly resource: Resource;
  readonly minTtlMs: number | undefined;
  readonly isHeader: boolean;
}

export function parse(words: Words): TokenOptions {
  return {
    resource: words.text('resource') === 'ws' ? 'ws' : 'api',
    minTtlMs: words.duration('min-ttl'),
    isHeader: words.flag('header'),
  };
}

export async function run(context: Context, { resource, minTtlMs, isHeader }: TokenOptions): Promise<void> {
  const { output, clock, signal } = context;
  const credential = await context.credential();
  const minTtlS = minTtlMs === undefined ? undefined : Math.ceil(minTtlMs / 1000);
  const { token, expiresAtMs, scope } = await credential.accessToken(resource, { minTtlS, signal });
  if (minTtlMs !== undefined && expiresAtMs !== undefined && expiresAtMs - clock.now() < minTtlMs)
    await output.note(
      `It lives ${Math.floor((expiresAtMs - clock.now()) / 1000)} s: the service gives no longer ones.`,
    );
  const document = {
    access_token: token,
    token_type: 'Bearer',
    resource,
    expires_at: expiresAtMs ?? null,
    scope: scope ?? null,
  };
  await output.document(document, (safe) =>
    isHeader ? `Authorization: Bearer ${safe.access_token}` : safe.access_token,
  );
}
