import { describe, expect, it } from 'vitest';

import { createServiceLog } from '../../../src/cli/commands/serve/start.js';
import { createOutput } from '../../../src/cli/terminal/output.js';
import { captureStreams } from '../../support/captured-streams.js';
import { createTestClock } from '../../support/clock.js';

const TOKEN = 'eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl';
const SECRETS = [
  `no such token ${TOKEN}`,
  `Authorization: Bearer abc.def-ghi`,
  'GET /oauth/cb?code=c0de123&state=x',
  'refresh_token=r3fresh123&client_secret=s3cret123',
  '/files/att_1?expires=1&signature=s1gnature123',
  'connect postgres://asp:hunter2@db/asp failed',
];
const HIDDEN = [TOKEN, 'abc.def-ghi', 'c0de123', 'r3fresh123', 's3cret123', 's1gnature123', 'hunter2'];

const toSettings = (log: 'errors' | 'text' | 'json', level?: 'error' | 'warn' | 'info' | 'debug') => ({
  log,
  'log-level': level,
  'security-log': undefined,
});

function logOf(format: 'errors' | 'text' | 'json', level?: 'error' | 'warn' | 'info' | 'debug') {
  const streams = captureStreams({});
  const settings = { format: 'human', fields: undefined, isQuiet: false, isVerbose: true } as const;
  const output = createOutput(streams, { ...settings, isOutColored: false, isErrColored: false });
  return { streams, log: createServiceLog({ clock: createTestClock(), streams, output }, toSettings(format, level)) };
}
const settle = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 20));

describe('a line of the service’s log', () => {
  for (const format of ['errors', 'text', 'json'] as const)
    it(`as ${format} hides tokens, codes, secrets and signatures that an error repeats`, async () => {
      const { streams, log } = logOf(format);
      for (const secret of SECRETS) log.error('request_failed', new Error(secret, { cause: new Error(secret) }));
      log.info('noted', { detail: SECRETS.join(' ') });
      await settle();
      expect(streams.err()).toContain('request_failed');
      for (const secret of HIDDEN) expect(streams.err()).not.toContain(secret);
      expect(streams.out()).toBe('');
    });

  it('stays one line, whatever an error contains', async () => {
    const hostile = 'a\r\n2026-01-01T00:00:00.000Z info request status=200\u2028b\u0085c\u001b[31m\u202e';
    for (const format of ['text', 'json'] as const) {
      const { streams, log } = logOf(format);
      log.error('request_failed', new Error(hostile), { chore: hostile });
      await settle();
      const lines = streams.err().split('\n');
      expect(lines).toHaveLength(2);
      expect(lines[0]).toMatch(format === 'json' ? /^\{.*\}$/ : /^2027-\S+ error request_failed /);
      expect(lines[0]).not.toMatch(/[\r\u001b\u0085\u2028\u202e]/);
    }
  });

  it('is written if its level is enabled; security lines always are', async () => {
    const wanted = { error: ['error'], warn: ['error', 'warn'], info: ['error', 'warn', 'info'] } as const;
    for (const format of ['text', 'json'] as const)
      for (const [level, levels] of Object.entries({ ...wanted, debug: ['error', 'warn', 'info', 'debug'] })) {
        const { streams, log } = logOf(format, level as keyof typeof wanted);
        log.error('an_error', new Error('x'));
        log.warn('a_warning', undefined);
        log.info('some_info');
        log.debug?.('a_detail', {});
        log.security?.('signed_in', {});
        await settle();
        const written = streams.err().match(/\b(error|warn|info|debug|security)(?=" ?,"event| {1,2}\w+_\w+)/g);
        expect(written, `${format} ${level}`).toEqual([...levels, 'security']);
      }
    const { streams, log } = logOf('errors', 'info');
    log.info('some_info');
    await settle();
    expect(streams.err()).toMatch(/^\S+Z info some_info\n$/);
  });

  it('collects no details unless they are enabled', () => {
    for (const format of ['errors', 'text', 'json'] as const) expect(logOf(format).log.debug).toBeUndefined();
    expect(logOf('json', 'info').log.debug).toBeUndefined();
  });

  it('about a fault also describes the request, even if only faults are logged', async () => {
    const { streams, log } = logOf('errors');
    log.error('request_failed', new Error('no'), { request_id: 'req_1' });
    await settle();
    expect(streams.err()).toContain('request_failed: no (request req_1)');
  });

  it('says what failed, why and where', async () => {
    const { streams, log } = logOf('json');
    log.error('sweep_failed', new TypeError('no', { cause: new Error('disk') }), { chore: 'sweep' });
    log.error('odd', 'a text');
    await settle();
    const [first, second] = streams.err().split('\n');
    expect(JSON.parse(first ?? '')).toMatchObject({
      level: 'error',
      event: 'sweep_failed',
      chore: 'sweep',
      error: 'TypeError: no',
      cause: 'Error: disk',
      stack: expect.stringContaining('service-log.test'),
    });
    expect(JSON.parse(second ?? '')).toMatchObject({ event: 'odd', error: 'a text' });
  });

  it('does not stop the service if it has no reader', async () => {
    for (const format of ['errors', 'text', 'json'] as const) {
      const { streams } = logOf(format);
      let tries = 0;
      const write = async (): Promise<void> => {
        tries += 1;
        throw new Error('EPIPE');
      };
      const gone = { ...streams, stderr: { ...streams.stderr, write } };
      const settings = { format: 'human', fields: undefined, isQuiet: false, isVerbose: true } as const;
      const output = createOutput(gone, { ...settings, isOutColored: false, isErrColored: false });
      const log = createServiceLog({ clock: createTestClock(), streams: gone, output }, toSettings(format));
      log.info('request');
      log.error('request_failed', new Error('x'));
      await settle();
      expect(tries).toBe(2);
    }
  });
});
