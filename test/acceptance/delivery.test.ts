import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { createHome, type Home, json, type Running, type ServiceProcess, startServe } from './program.js';

type Delivery = { recipients: { handle: string; state: string; reports_taken: boolean }[] };

describe('the delivery state of a message', () => {
  let home: Home;
  let service: ServiceProcess;
  beforeAll(async () => {
    home = createHome();
    service = await startServe(home, ['--seed', 'demo.you,alice.bot', '--limits', 'off']);
    for (const handle of ['demo.you', 'alice.bot']) expect((await home.run(['login', handle, '--yes'])).status).toBe(0);
  });
  afterAll(async () => {
    await service.stop();
    await home.dispose();
  });

  const asp = (...words: string[]) => home.run([...words, '-a', 'demo.you']);
  const asAlice = (...words: string[]) => home.run([...words, '-a', 'alice.bot']);
  /** Creates a session between the two. */
  const openSession = async (): Promise<string> => {
    const id = (await asp('session', 'create', 'alice.bot')).stdout.trim();
    expect((await asAlice('session', 'join', id)).status).toBe(0);
    return id;
  };
  const send = async (id: string, text: string, ...words: string[]): Promise<Record<string, unknown>> =>
    json((await asp('send', id, text, '--json', ...words)).stdout);
  const stateOf = async (id: string): Promise<string | undefined> => {
    const { delivery } = json<{ delivery: Delivery }>(
      (await asp('session', 'show', id, '--delivery', '--json')).stdout,
    );
    return delivery.recipients[0]?.state;
  };
  const until = async (id: string, state: string): Promise<void> => {
    for (let tries = 0; (await stateOf(id)) !== state; tries += 1) if (tries > 40) throw new Error(await stateOf(id));
  };
  const stop = async (running: Running): Promise<void> => {
    running.kill('SIGINT');
    await running.ended;
  };

  it('asp tail only delivers: printing a line does not take a message', async () => {
    const id = await openSession();
    await send(id, 'hello');
    expect(await stateOf(id)).toBe('stored');
    const tail = home.start(['tail', id, '-a', 'alice.bot']);
    await tail.until('stdout', /hello/);
    await until(id, 'delivered');
    await stop(tail);
    expect(await stateOf(id)).toBe('delivered');
  });

  it('asp tail --exec takes only the messages for which its command succeeded', async () => {
    const id = await openSession();
    await send(id, 'one');
    const failed = await home.asp(['tail', id, '--no-follow', '--exec', 'exit 3', '-a', 'alice.bot']);
    expect(failed.status).toBe(10);
    expect(await stateOf(id)).toBe('stored');
    const done = await home.asp(['tail', id, '--no-follow', '--exec', 'cat > /dev/null', '-a', 'alice.bot']);
    expect(done.status).toBe(0);
    expect(await stateOf(id)).toBe('taken');
  });

  it('asp run takes a message while its command works, and answers it', async () => {
    const id = await openSession();
    const gate = join(home.directory, 'gate');
    const command = `while ! [ -e ${gate} ]; do sleep 0.05; done; echo done`;
    const agent = home.start(['run', '--exec', command, '-a', 'alice.bot', '--from', 'anyone']);
    await agent.until('stderr', /Answering as/);
    const sent = await send(id, 'work', '--wait-for', 'taken', '--timeout', '20s');
    expect((sent['delivery'] as Delivery).recipients).toMatchObject([{ handle: '@alice.bot', state: 'taken' }]);
    writeFileSync(gate, '');
    await until(id, 'answered');
    await stop(agent);
  });

  it('asp run takes no message if its command cannot run, and none that it should not answer', async () => {
    const id = await openSession();
    await send(id, 'work');
    const broken = ['run', '--exec', '/nowhere/at/all', '-a', 'alice.bot', '--since', '1h', '--from', 'anyone'];
    const ended = await home.asp([...broken, '--cursor-file', join(home.directory, 'broken.json')]);
    expect(ended.status).toBe(2);
    expect(['stored', 'delivered']).toContain(await stateOf(id));
  });

  it('asp mcp takes the messages that its client received', async () => {
    const id = await openSession();
    await send(id, 'for the model');
    const call = (number: number, method: string, params: object): string =>
      `${JSON.stringify({ jsonrpc: '2.0', id: number, method, params })}\n`;
    const begin = call(1, 'initialize', {
      protocolVersion: '2025-06-18',
      capabilities: {},
      clientInfo: { name: 'test', version: '1' },
    });
    const read = call(2, 'tools/call', { name: 'read', arguments: { session_id: id } });
    for (const [words, state] of [
      [['--read-only'], 'stored'],
      [[], 'taken'],
    ] as const) {
      const server = home.start(['mcp', '-a', 'alice.bot', ...words], { input: { isOpen: true } });
      server.child.stdin?.write(begin + read);
      await server.until('stdout', /for the model/);
      server.child.stdin?.end();
      await server.ended;
      expect(['delivered', state].includes((await stateOf(id)) ?? '')).toBe(true);
    }
    expect(await stateOf(id)).toBe('taken');
  });

  it('a person takes messages by reading the inbox', async () => {
    const id = await openSession();
    await send(id, 'news');
    expect((await asAlice('inbox')).stdout).toContain('news');
    expect(await stateOf(id)).not.toBe('taken');
    expect((await asAlice('inbox', 'read', id)).stdout).toContain('news');
    expect(await stateOf(id)).toBe('taken');
  });

  it('asp reply answers a message', async () => {
    const id = await openSession();
    await send(id, 'ready?');
    expect((await asAlice('reply', id, 'yes')).status).toBe(0);
    expect(await stateOf(id)).toBe('answered');
  });

  it('asp send --wait-for times out and says what did not happen', async () => {
    const id = await openSession();
    const late = await asp('send', id, 'hello', '--wait-for', 'delivered', '--timeout', '1500ms');
    expect(late.status).toBe(8);
    expect(late.stderr).toContain('The message was not delivered in time: @alice.bot (stored). Your message was sent.');
    expect(late.stderr).toContain(`asp session show ${id} --delivery`);
  });

  it('asp send --wait-for does not succeed if everyone leaves before they have the message', async () => {
    const id = await openSession();
    const sending = home.start(['send', id, 'hello', '--wait-for', 'taken', '--timeout', '30s', '-a', 'demo.you']);
    await sending.until('stderr', /Waiting until the message is taken/);
    expect((await asAlice('session', 'leave', id)).status).toBe(0);
    expect((await sending.ended).status).toBe(10);
    expect(sending.stderr()).toContain('@alice.bot left before the message was taken. Your message was sent.');
    const alone = await asp('send', id, 'hello', '--wait-for', 'delivered', '--timeout', '10s');
    expect(alone.status).toBe(10);
    expect(alone.stderr).toContain('No one else is in the session. Your message was sent.');
  });

  it('an agent may choose not to report what it takes', async () => {
    const id = await openSession();
    expect((await asAlice('agent', 'update', '--hide-taken')).status).toBe(0);
    await send(id, 'hello');
    expect((await asAlice('inbox', 'read', id)).stdout).toContain('hello');
    expect(await stateOf(id)).toBe('stored');
    const refused = await asp('send', id, 'hello', '--wait-for', 'taken', '--timeout', '10s');
    expect(refused.status).toBe(10);
    expect(refused.stderr).toContain('@alice.bot does not report what is taken. Your message was sent.');
    expect((await asAlice('agent', 'update', '--share-taken')).status).toBe(0);
  });
});
