import { expect } from 'vitest';
import { mustBeEnvelope, mustSucceed } from '../support/answers.js';
import { answerOf } from '../support/http.js';
import { rawBytes } from '../support/raw-http.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// Bytes that no client would send. The service may answer or not, but it never fails, and it keeps running.

const service = useService();

rule(
  'spec/Errors/INTERNAL_ERROR',
  'bytes that are barely HTTP are refused or dropped, and the service keeps running',
  async () => {
    const { hostname, port, host, pathname } = new URL(service.place.baseUrl);
    const alice = await service.actor('alice');
    const auth = `authorization: Bearer ${await alice.token()}\r\nhost: ${host}\r\nconnection: close\r\n`;
    const path = `${pathname}/sessions`;
    const attempts = [
      'GARBAGE\r\n\r\n',
      '\u0000\u0001\u0002\r\n\r\n',
      `GET ${path} HTTP/0.9\r\n\r\n`,
      `GET ${path} HTTP/1.1\r\n\r\n`,
      `GET ${path} HTTP/1.1\r\nhost: a\r\nhost: b\r\nconnection: close\r\n\r\n`,
      `GET ${path}/%E0%A4%A HTTP/1.1\r\n${auth}\r\n`,
      `GET http://[::1 HTTP/1.1\r\n${auth}\r\n`,
      `GET * HTTP/1.1\r\n${auth}\r\n`,
      `CONNECT ${host} HTTP/1.1\r\n${auth}\r\n`,
      `GET ${path} HTTP/1.1\r\n${auth}x : y\r\n\r\n`,
      `GET ${path} HTTP/1.1\r\n${auth}x: y\r\n folded\r\n\r\n`,
      `GET ${path} HTTP/1.1\r\n${auth}x: ${'y'.repeat(100_000)}\r\n\r\n`,
      `GET ${path}?${'q'.repeat(100_000)} HTTP/1.1\r\n${auth}\r\n`,
      `POST ${path} HTTP/1.1\r\n${auth}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
      `POST ${path} HTTP/1.1\r\n${auth}content-length: 1\r\ncontent-length: 2\r\n\r\nxx`,
      `POST ${path} HTTP/1.1\r\n${auth}transfer-encoding: chunked\r\n\r\nZZ\r\n`,
      `POST ${path} HTTP/1.1\r\n${auth}content-type: application/json\r\ncontent-encoding: gzip\r\nidempotency-key: x\r\ncontent-length: 2\r\n\r\n{}`,
      `POST ${path} HTTP/1.1\r\n${auth}expect: nonsense\r\ncontent-length: 0\r\n\r\n`,
      `GET ${path} HTTP/1.1\r\n${auth}upgrade: websocket\r\nconnection: upgrade\r\n\r\n`,
      `GET ${path} HTTP/1.1\r\n${auth}upgrade: h2c\r\nconnection: upgrade\r\n\r\n`,
      `GET /connect HTTP/1.1\r\nhost: ${host}\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 1\r\n\r\n`,
    ];
    for (const attempt of attempts) {
      const bytes = await rawBytes(hostname, Number(port), Buffer.from(attempt, 'latin1'), 2_000).catch(() =>
        Buffer.alloc(0),
      );
      const [head = '', ...body] = bytes.toString('latin1').split('\r\n\r\n');
      if (head === '') continue;
      const status = Number(head.split(' ')[1]);
      expect(status, `${attempt.slice(0, 200)} → ${head}`).toBeLessThan(500);
      const type = /content-type: (.*)/i.exec(head)?.[1] ?? '';
      if (status >= 400 && type.startsWith('application/json'))
        mustBeEnvelope(answerOf(status, headersOf(head), Buffer.from(unchunked(body.join('\r\n\r\n')), 'latin1')));
    }
    mustSucceed(await alice.get('/agents/me'));
  },
);

function headersOf(head: string): Record<string, string> {
  const lines = head.split('\r\n').slice(1);
  return Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
  );
}

/** Removes the framing from a body that was sent as one chunk. */
function unchunked(body: string): string {
  return body.replace(/^[0-9a-f]+\r\n/i, '').replace(/\r\n0(?:\r\n)*$/, '');
}
