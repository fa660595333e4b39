import { spawn, spawnSync } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

import { describe, expect, it } from 'vitest';

import { useService } from '../conformance/service.js';
import { text } from '../support/json.js';
import { approve } from './stage.js';

const PROGRAM = fileURLToPath(new URL('programs/requests_oauthlib_client.py', import.meta.url));
const IMPORTS = 'import requests, requests_oauthlib, websocket';

/** Debian's packages belong to the system's own Python, which may not be the first one on the PATH. */
const python = ['python3', '/usr/bin/python3'].find((path) => spawnSync(path, ['-c', IMPORTS]).status === 0);
const reason = python === undefined ? 'python3-requests-oauthlib and python3-websocket are not installed' : undefined;

const service = useService();

/** Runs the program and answers each document that it prints. Returns all documents. */
async function run(
  words: readonly string[],
  answer: (document: unknown) => Promise<string | undefined>,
  environment: Readonly<Record<string, string>> = {},
): Promise<unknown[]> {
  const child = spawn(python ?? 'python3', [PROGRAM, service.place.baseUrl, ...words], {
    env: { PATH: process.env['PATH'], NO_PROXY: '*', ...environment },
  });
  const errors: string[] = [];
  child.stderr.on('data', (chunk: Buffer) => errors.push(chunk.toString('utf8')));
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  const documents: unknown[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    const document: unknown = JSON.parse(line);
    documents.push(document);
    const reply = await answer(document);
    if (reply !== undefined) child.stdin.write(`${reply}\n`);
  }
  expect(await ended, errors.join('')).toBe(0);
  return documents;
}

describe.skipIf(reason !== undefined)(`Python programs ${reason ?? ''}`, () => {
  it('requests-oauthlib registers, signs in with PKCE and refreshes; websocket-client gets events', async () => {
    let handle = '';
    const documents = await run([], async (document) => {
      if (typeof document !== 'object' || document === null || !('open' in document)) return undefined;
      const approval = await approve(text(document, 'open'));
      handle = approval.handle;
      return approval.callback.href;
    });
    expect(documents.at(-1)).toEqual({ handle, renewed: true, content: 'hello' });
  });

  it('requests-oauthlib gets a token by client credentials; websocket-client gets events', async () => {
    const alice = await service.actor('alice');
    const { clientId, clientSecret } = alice.credentials;
    const documents = await run(['credentials'], async () => undefined, {
      CLIENT_ID: clientId,
      CLIENT_SECRET: clientSecret,
    });
    expect(documents).toEqual([{ handle: alice.handle, content: 'hello' }]);
  });
});
