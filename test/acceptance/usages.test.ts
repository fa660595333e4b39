import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { createHome, type Home, json, jsonLines, missing, type ServiceProcess, startServe } from './program.js';

interface Envelope {
  type: string;
  session_id: string;
  sequence: number;
  payload: { content?: string; sequence?: number };
}

const noJq = missing('jq');

describe('The main examples of the documentation', () => {
  let home: Home;
  let service: ServiceProcess;

  beforeAll(async () => {
    home = createHome();
    service = await startServe(home, ['--demo']);
    expect(await home.shell('asp login @demo.you --yes')).toMatchObject({ status: 0, stdout: '@demo.you\n' });
  });
  afterAll(async () => {
    await service.stop();
    await home.dispose();
  });

  it('asp send @alice.bot "hi" --end: one session with sequences 1, 2, 3, the message numbered as its envelope and as the answer', async () => {
    const sent = await home.shell('asp send @alice.bot "hi" --end --json');
    expect(sent).toMatchObject({ status: 0 });
    const answer = json<{ session_id: string; sequence: number; state: string }>(sent.stdout);
    const events = jsonLines<Envelope>((await home.shell(`asp session events ${answer.session_id}`)).stdout);
    expect(events.map((event) => [event.type, event.sequence])).toEqual([
      ['session.invited', 1],
      ['session.message', 2],
      ['session.ended', 3],
    ]);
    expect(events[1]?.payload).toMatchObject({ content: 'hi', sequence: 2 });
    expect(answer).toMatchObject({ sequence: 2, state: 'ended' });
  });

  it('sid=$(asp send @demo.echo "hi") gets only the session id', async () => {
    const sent = await home.shell('sid=$(asp send @demo.echo "hi") && echo "[$sid]"');
    expect(sent.stdout).toMatch(/^\[sess_[0-9A-Z]{26}\]\n$/);
  });

  it.skipIf(noJq)(`asp tail sess_… | jq .${noJq ?? ''}`, async () => {
    const line =
      'asp tail $(asp send @demo.echo "hello" --end) | jq -r \'select(.type=="session.message") | .payload.content\'';
    expect(await home.shell(line)).toEqual({ status: 0, signal: null, stdout: 'hello\n', stderr: expect.any(String) });
  });

  it('asp send @demo.echo "go" --wait-for taken ends once the agent has answered', async () => {
    const sent = await home.shell('asp send @demo.echo "go" --wait-for taken --timeout 20s');
    expect(sent).toMatchObject({ status: 0, stdout: expect.stringMatching(/^sess_[0-9A-Z]{26}\n$/) });
  });

  it('send --wait prints the answer of the other side', async () => {
    const reply = await home.shell('asp send @demo.echo "anyone there?" --wait --json --timeout 20s');
    expect(reply).toMatchObject({ status: 0 });
    expect(json<{ reply: { content: string } }>(reply.stdout).reply.content).toBe('anyone there?');
  });

  it('asp tail … | head -1 ends with 0 and no error', async () => {
    const ended = await home.shell(
      'set -o pipefail; sid=$(asp send @demo.echo "hi" 2>/dev/null); asp tail $sid | head -1; echo $?',
    );
    expect(ended.stderr).toBe('');
    const [first = '', status] = ended.stdout.trim().split('\n');
    expect(json<Envelope>(first).sequence).toBe(1);
    expect(status).toBe('0');
  });

  it('CI: with only client credentials, no home, and the same name twice, one message is sent', async () => {
    const added = json<{ client_id: string; client_secret: string }>(
      (await home.shell('asp serve client add @me.ci')).stdout,
    );
    const environment = {
      PATH: home.environment['PATH'],
      ASP_CLIENT_ID: added.client_id,
      ASP_CLIENT_SECRET: added.client_secret,
      ASP_BASE_URL: undefined,
      HOME: '/nonexistent',
      XDG_RUNTIME_DIR: home.environment['XDG_RUNTIME_DIR'],
      ASP_TOKEN_STORE: undefined,
    };
    const line = 'asp send @alice.bot "ci" --end --once build-1 --json';
    const first = await home.shell(line, { environment });
    const second = await home.shell(line, { environment });
    expect(first).toMatchObject({ status: 0 });
    expect(second).toMatchObject({ status: 0 });
    const [one, two] = [json(first.stdout), json(second.stdout)];
    expect(two['session_id']).toBe(one['session_id']);
    expect(one['as']).toBe('@me.ci');
    const list = await home.shell('asp session list --json', { environment });
    expect(json<{ items: unknown[] }>(list.stdout).items).toHaveLength(1);
  });

  it('the service exits with 0 on Ctrl-C', async () => {
    const own = createHome();
    const stopped = await (await startServe(own)).stop();
    expect(stopped).toMatchObject({ status: 0, signal: null });
    await own.dispose();
  });
});
