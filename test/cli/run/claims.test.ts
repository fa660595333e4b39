import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';

import { Claims } from '../../../src/agent/claims.js';
import { connect } from '../../../src/client/client.js';
import { createTokenCredential } from '../../../src/client/credentials/credential.js';
import { createTransport } from '../../../src/client/http/transport.js';
import { systemRandom } from '../../../src/kit/random.js';
import type { EventEnvelope } from '../../../src/wire/schemas/event.js';
import { createTestClock } from '../../support/clock.js';
import { until } from '../../support/until.js';

const SESSION = 'sess_01M7Y9G2R8BA6EEBGWJC9J4TKX';
const EVENT = { type: 'session.message', session_id: SESSION, event_id: 'evt_1', sequence: 1, created_at: 1 };
const OURS = { is_yours: true, is_done: false, expires_in_ms: 15_000, attempt: 1 };

it('a claim whose renewal gets no answer is renewed again as soon as the injected clock says so', async () => {
  const clock = createTestClock();
  const open: ServerResponse[] = [];
  let cut = 0;
  let count = 0;
  const server = createServer((request, response) => {
    request.resume();
    count += 1;
    if (count === 1) return response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(OURS));
    open.push(response);
    return response.once('close', () => {
      cut += 1;
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const transport = createTransport({ clock, userAgent: 'test' });
  const client = connect({
    service: { baseUrl: `http://127.0.0.1:${port}/v1` },
    credential: createTokenCredential({ api: 'x', ws: undefined }),
    ...{ transport, random: systemRandom, retries: 0 },
  });
  const output = { note: async () => {}, detail: async () => {} };
  const claims = new Claims({ clock, output, globals: {} }, client, 'worker', new AbortController().signal);
  try {
    const event = { ...EVENT, payload: {} } as unknown as EventEnvelope;
    expect(await claims.begin(event, 'msg_1', () => true)).toEqual({ kind: 'ours', attempt: 1 });
    for (const renewals of [1, 2]) {
      clock.advance(5_000);
      await until('the claim is renewed', async () => open.length === renewals, 2_000);
      clock.advance(5_000);
      await until('the renewal is given up', async () => cut === renewals, 2_000);
    }
    const closed = claims.close();
    await until('the session is given back', async () => open.length === 3, 2_000);
    clock.advance(5_000);
    await closed;
    await until('that is given up too', async () => cut === 3, 2_000);
  } finally {
    await transport.close();
    server.closeAllConnections();
    server.close();
  }
});
