import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { systemRandom } from '../../../src/kit/random.js';
import type { Answer } from '../../support/http.js';
import { formBody } from '../../support/http.js';
import { field, text } from '../../support/json.js';
import { claimsOf, mustRegister, refresh, revoke } from '../../support/oauth.js';
import { TEST_STORE } from '../../support/stores.js';
import { type Desk, openDesk, openDeskWithClient } from './desk.js';

const DAY_MS = 24 * 60 * 60 * 1000;

let desk: Desk & { clientId: string };
beforeAll(async () => {
  desk = await openDeskWithClient();
});
afterAll(() => desk.stop());

const rotate = (token: string, overrides: Record<string, string | undefined> = {}): Promise<Answer> =>
  refresh(desk.place, desk.clientId, token, overrides);
const mustRotate = async (token: string): Promise<string> => text((await rotate(token)).json, 'refresh_token');
/** Sends a complete request and cuts its connection when `whenToCut` calls back. */
function refreshAndCut(
  { place, clientId }: Desk & { clientId: string },
  token: string,
  whenToCut: (cut: () => void) => void,
): Promise<void> {
  const { hostname, port, pathname } = new URL(place.tokenUrl);
  const body = formBody({
    grant_type: 'refresh_token',
    client_id: clientId,
    refresh_token: token,
    resource: place.baseUrl,
  });
  const head = [
    `POST ${pathname} HTTP/1.1`,
    `Host: ${hostname}:${port}`,
    'Content-Type: application/x-www-form-urlencoded',
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => {
      whenToCut(() => socket.resetAndDestroy());
      socket.write(`${head.join('\r\n')}\r\n\r\n${body}`);
    });
    socket.on('close', () => resolve());
    socket.on('error', reject);
  });
}

const outcome = ({ status, json }: Answer) => [status, status === 200 ? 'ok' : field(json, 'error')];
const DEAD = [401, 'invalid_client'];

describe('Authentication › Refresh', () => {
  it('every refresh returns a new refresh token, and the old one is invalidated', async () => {
    const { refreshToken } = await desk.login(desk.clientId);
    const answer = await rotate(refreshToken);
    expect(answer.status).toBe(200);
    expect(answer.json).toMatchObject({ token_type: 'Bearer', expires_in: 900, agent_handle: 'alice.bot' });
    expect(field(answer.json, 'scope')).toBeUndefined();
    expect(text(answer.json, 'refresh_token')).not.toBe(refreshToken);
  });

  it('presenting an already-rotated token revokes the whole family, and no other', async () => {
    const { refreshToken: first } = await desk.login(desk.clientId);
    const { refreshToken: elsewhere } = await desk.login(desk.clientId);
    const second = await mustRotate(first);
    expect(outcome(await rotate(first))).toEqual(DEAD);
    expect(outcome(await rotate(second))).toEqual(DEAD);
    expect(outcome(await rotate(elsewhere))).toEqual([200, 'ok']);
  });

  it('an ancestor of any depth has the same effect as the parent', async () => {
    const { refreshToken: first } = await desk.login(desk.clientId);
    let newest = first;
    for (let depth = 0; depth < 5; depth += 1) newest = await mustRotate(newest);
    expect(outcome(await rotate(first))).toEqual(DEAD);
    expect(outcome(await rotate(newest))).toEqual(DEAD);
  });

  it('another client is refused and leaves the family untouched', async () => {
    const { refreshToken: first } = await desk.login(desk.clientId);
    const second = await mustRotate(first);
    const other = await mustRegister(desk.place);
    for (const token of [first, second]) {
      expect(outcome(await refresh(desk.place, other, token))).toEqual(DEAD);
    }
    expect(outcome(await rotate(second))).toEqual([200, 'ok']);
  });

  it('a narrower scope may be requested; the family keeps its own', async () => {
    const { refreshToken } = await desk.login(desk.clientId);
    const narrow = await rotate(refreshToken, { scope: 'sessions:read' });
    expect(field(claimsOf(text(narrow.json, 'access_token')), 'scope')).toBe('sessions:read');
    const wide = await rotate(text(narrow.json, 'refresh_token'));
    expect(field(claimsOf(text(wide.json, 'access_token')), 'scope')).toContain('sessions:write');
  });

  it('widening is refused with 403 and consumes nothing; so is an unknown resource with 400', async () => {
    const { refreshToken } = await desk.login(desk.clientId, { scope: 'sessions:read' });
    expect(outcome(await rotate(refreshToken, { scope: 'sessions:read sessions:write' }))).toEqual([
      403,
      'invalid_scope',
    ]);
    expect(outcome(await rotate(refreshToken, { resource: 'https://elsewhere.example' }))).toEqual([
      400,
      'invalid_target',
    ]);
    expect(outcome(await rotate(refreshToken))).toEqual([200, 'ok']);
  });

  it('moves between the resources that were granted', async () => {
    const { refreshToken } = await desk.login(desk.clientId);
    const answer = await rotate(refreshToken, { resource: desk.place.wsUrl });
    expect(field(claimsOf(text(answer.json, 'access_token')), 'aud')).toBe(desk.place.wsUrl);
  });

  it('expires after 30 days without use; each use starts them again', async () => {
    const own = await openDeskWithClient();
    try {
      const { refreshToken } = await own.login(own.clientId);
      own.clock.advance(30 * DAY_MS - 1000);
      const used = await refresh(own.place, own.clientId, refreshToken);
      own.clock.advance(30 * DAY_MS - 1000);
      const again = await refresh(own.place, own.clientId, text(used.json, 'refresh_token'));
      expect(again.status).toBe(200);
      own.clock.advance(30 * DAY_MS + 1000);
      expect(outcome(await refresh(own.place, own.clientId, text(again.json, 'refresh_token')))).toEqual(DEAD);
    } finally {
      await own.stop();
    }
  });

  it('exactly one of 64 at once succeeds, and the family ends revoked', async () => {
    for (let round = 0; round < 5; round += 1) {
      const { refreshToken } = await desk.login(desk.clientId);
      const answers = await Promise.all(Array.from({ length: 64 }, () => rotate(refreshToken)));
      const won = answers.filter(({ status }) => status === 200);
      expect(won).toHaveLength(1);
      expect(outcome(await rotate(text(won[0]?.json, 'refresh_token')))).toEqual(DEAD);
    }
  });

  // This test reads SQLite's file from the disk.
  if (TEST_STORE !== 'postgres')
    it('keeps tokens, codes and secrets as hashes only', async () => {
      const directory = await mkdtemp(join(tmpdir(), 'asp-hashes-'));
      const own = await openDesk({ data: { directory } });
      try {
        const clientId = await mustRegister(own.place);
        const { refreshToken } = await own.login(clientId);
        const { code } = await own.authorize(clientId);
        await own.stop();
        const bytes = Buffer.concat(
          readdirSync(directory, { withFileTypes: true })
            .filter((entry) => entry.isFile())
            .map((entry) => readFileSync(join(directory, entry.name))),
        );
        expect(bytes.includes(clientId)).toBe(true);
        for (const secret of [refreshToken, code]) expect(bytes.includes(secret.slice(7))).toBe(false);
      } finally {
        await own.stop();
        await rm(directory, { recursive: true, force: true });
      }
    });
});

describe('Authentication › Refresh, "when rotation completes" (D-26)', () => {
  it('a connection that is cut before the answer leaves the old token valid', async () => {
    const undone: unknown[] = [];
    let cut: (() => void) | undefined;
    const own = await openDeskWithClient({
      // The service generates the successor in the middle of the rotation. That is when the test cuts the connection.
      // Request ids are shorter.
      random: {
        ...systemRandom,
        bytes(count) {
          if (count >= 32) {
            cut?.();
            cut = undefined;
          }
          return systemRandom.bytes(count);
        },
      },
      log: {
        info: (event, fields) => {
          if (event === 'rotation_undone') undone.push(fields?.['isUndone']);
        },
        warn: () => {},
        error: () => {},
      },
    });
    try {
      const rounds = 40;
      let valid = 0;
      for (let round = 0; round < rounds; round += 1) {
        const { refreshToken } = await own.login(own.clientId);
        await refreshAndCut(own, refreshToken, (now) => {
          cut = now;
        });
        if ((await refresh(own.place, own.clientId, refreshToken)).status === 200) valid += 1;
      }
      // Bytes that the kernel accepted before the cut count as written, so a few rotations may stand.
      expect(undone.length).toBeGreaterThanOrEqual(rounds * 0.8);
      expect(undone.every((isUndone) => isUndone === true)).toBe(true);
      expect(valid).toBe(undone.length);
    } finally {
      await own.stop();
    }
  });

  it('once the answer is written, presenting the old token counts as reuse', async () => {
    const { refreshToken } = await desk.login(desk.clientId);
    await rotate(refreshToken);
    expect(outcome(await rotate(refreshToken))).toEqual(DEAD);
  });
});

describe('POST /revoke', () => {
  it('ends the whole family, whichever of its tokens is presented', async () => {
    for (const presented of ['first', 'newest'] as const) {
      const { refreshToken: first } = await desk.login(desk.clientId);
      const newest = await mustRotate(first);
      expect((await revoke(desk.place, desk.clientId, presented === 'first' ? first : newest)).status).toBe(200);
      expect(outcome(await rotate(newest))).toEqual(DEAD);
    }
  });

  it('always answers 200 with an empty body, and ends only the family of its own client', async () => {
    const other = await mustRegister(desk.place);
    const { accessToken, refreshToken } = await desk.login(desk.clientId);
    const foreign = [other, 'oac_unknown', '', 'CANARY\u0000'];
    const garbage = ['', 'x', 'asp_rt_garbage', accessToken, 'é'.repeat(2000)];
    const hints = ['refresh_token', 'access_token', '', 'nonsense'];
    for (const hint of hints) {
      for (const clientId of foreign) {
        const answer = await revoke(desk.place, clientId, refreshToken, hint);
        expect([answer.status, answer.text]).toEqual([200, '']);
      }
      for (const token of garbage) {
        const answer = await revoke(desk.place, desk.clientId, token, hint);
        expect([answer.status, answer.text]).toEqual([200, '']);
      }
    }
    expect(outcome(await rotate(refreshToken))).toEqual([200, 'ok']);
  });

  it('leaves no token of the family valid, no matter what is refreshed in the meantime', async () => {
    for (let round = 0; round < 20; round += 1) {
      const { refreshToken } = await desk.login(desk.clientId);
      const [refreshed] = await Promise.all([rotate(refreshToken), revoke(desk.place, desk.clientId, refreshToken)]);
      const successor = refreshed.status === 200 ? text(refreshed.json, 'refresh_token') : refreshToken;
      expect(outcome(await rotate(successor))).toEqual(DEAD);
    }
  });
});
