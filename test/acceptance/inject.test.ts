import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { createHome, type Home, json, jsonLines, type ServiceProcess, startServe } from './program.js';

const MESSAGES = 30;

interface Sent {
  session_id: string;
  attempts: number;
}
interface Envelope {
  event_id: string;
  sequence: number;
  payload: { content: string };
}

describe('A service that fails on purpose', () => {
  let home: Home;
  let service: ServiceProcess;
  beforeEach(() => {
    home = createHome();
  });
  afterEach(async () => {
    await service.stop();
    await home.dispose();
  });
  const start = async (faults: string): Promise<void> => {
    service = await startServe(home, ['--seed', 'alice.bot,bob.bot', '--limits', 'off', '--inject', faults]);
    expect((await home.run(['login', '@alice.bot', '--yes'])).status).toBe(0);
  };
  const messagesOf = async (session: string): Promise<string[]> => {
    const ended = await home.asp(['message', 'list', session, '--jsonl', '--retries', '20']);
    expect(ended.status, ended.stderr).toBe(0);
    return jsonLines<{ content: string }>(ended.stdout).map(({ content }) => content);
  };

  it('says so when it starts', async () => {
    await start('500:1/2,seed:1');
    await service.running.until('stderr', /Injecting faults into.*--inject 500:1\/2,seed:1/);
  });

  for (const fault of ['500', 'lost', 'cut', '429'])
    it(`asp send survives ${fault}: one effect, no matter how many tries`, async () => {
      await start(`${fault}:1/2,seed:3`);
      const attempts: number[] = [];
      const first = await home.asp(['send', '@bob.bot', 'message 0', '--json', '--retries', '10']);
      expect(first.status, first.stderr).toBe(0);
      const { session_id, ...created } = json<Sent>(first.stdout);
      attempts.push(created.attempts);
      for (const content of ['message 1', 'message 2']) {
        const sent = await home.asp(['send', session_id, content, '--json', '--retries', '10']);
        expect(sent.status, sent.stderr).toBe(0);
        attempts.push(json<Sent>(sent.stdout).attempts);
      }
      expect(Math.max(...attempts)).toBeGreaterThan(1);
      expect(await messagesOf(session_id)).toEqual(['message 0', 'message 1', 'message 2']);
    });

  it('asp tail survives drop: every event once and in order', async () => {
    await start('drop:1/3');
    const session = (await home.asp(['session', 'create', '--topic', 'drops'])).stdout.trim();
    const tail = home.start(['tail', session, '-c', String(MESSAGES), '--type', 'session.message', '--control']);
    await tail.until('stdout', /asp\.ready/);
    const lines = Array.from({ length: MESSAGES }, (_, index) => `message ${index}`);
    const sent = await home.asp(['send', session, '--lines'], { input: `${lines.join('\n')}\n` });
    expect(sent.status, sent.stderr).toBe(0);
    const { status, stdout } = await tail.ended;
    expect(status).toBe(0);
    const all = jsonLines<Envelope & { type: string }>(stdout);
    expect(all.some(({ type }) => type === 'asp.reconnecting')).toBe(true);
    const events = all.filter(({ type }) => type === 'session.message');
    expect(events.map(({ payload }) => payload.content)).toEqual(lines);
    expect(new Set(events.map(({ event_id }) => event_id)).size).toBe(MESSAGES);
  });
});
