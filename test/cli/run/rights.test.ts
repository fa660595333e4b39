import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { createRelations } from '../../../src/agent/relation.js';
import { connect } from '../../../src/client/client.js';
import { createTokenCredential } from '../../../src/client/credentials/credential.js';
import { systemClock } from '../../../src/kit/clock.js';
import type { Actor } from '../../support/actors.js';
import { field } from '../../support/json.js';
import { startTestService, type TestService } from '../../support/service.js';
import { optionsAs } from '../acting.js';
import { freshHome, type Ran, runWords } from '../captured-run.js';

describe('what a message may do at the command of asp run --exec', () => {
  let service: TestService;
  let me: Actor;
  let senders: readonly Actor[];
  /** The next run goes on where the last one ended. */
  const home = freshHome();

  beforeAll(async () => {
    service = await startTestService();
    const [bot, listed, stranger] = await Promise.all(
      ['bot', 'listed', 'stranger'].map((one) => service.createAgent(one)),
    );
    if (bot === undefined || listed === undefined || stranger === undefined) throw new Error('no agents');
    me = bot;
    senders = [await service.createAgent('sister', { owner: me.owner }), listed, stranger];
    await me.post(`/agents/${me.owner}/${me.name}/allowlist`, { entries: [listed.handle] });
  });
  afterAll(() => service.stop());

  /** One message of each sender, and what the run did with them; the sessions are in the order of the senders. */
  const answerAll = async (command: string, words: readonly string[]) => {
    const ids: string[] = [];
    for (const sender of senders)
      ids.push(await sender.mustCreate({ invite: [me.handle], initial_message: { content: 'ping' } }));
    const line = ['run', '--exec', command, '--from', 'anyone', '--since', '5s', '--count', '3', ...words];
    const ran = await runWords(line, optionsAs(service, me, home));
    const answers: unknown[] = [];
    for (const [at, sender] of senders.entries()) {
      const events = await sender.mustReplay(ids[at] ?? '');
      const said = events.filter((event) => field(event, 'payload.sender') === me.handle);
      answers.push(said.map((event) => field(event, 'payload.content')).join());
      await sender.mustEnd(ids[at] ?? '');
    }
    return { ...ran, answers };
  };
  const lines = (path: string): string[] => readFileSync(path, 'utf8').trim().split('\n').sort();
  const refused = (words: string): Promise<Ran> => runWords(['run', '--exec', 'cat', '--allow', words]);

  it('depends on the sender’s relation, which its input names', async () => {
    const command = `sed 's/.*"relation":"\\([^"]*\\)".*/\\1/'`;
    expect((await answerAll(command, [])).answers).toEqual(['same owner', 'on your allowlist', 'anyone']);
  });

  it.each([[[]], [['--lines']]])('is limited by --allow (%j)', async (more) => {
    const log = join(freshHome(), 'log');
    const isByLines = more.length > 0;
    const command = isByLines
      ? `while read -r line; do echo "$line" | sed 's/.*"relation":"\\([^"]*\\)".*/\\1/' >>${log}; echo "$line" | sed 's/.*"event_id":"\\([^"]*\\)".*/{"event_id":"\\1","content":"pong"}/'; done`
      : `sed 's/.*"relation":"\\([^"]*\\)".*/\\1/' >>${log}; echo pong`;
    const allow = ['--allow', 'same-owner=run,reply', '--allow', 'allowlisted=run', '--allow', 'anyone=reply'];
    const { err, out, answers } = await answerAll(command, [...more, ...allow.slice(0, 4)]);
    expect(answers).toEqual(['pong', '', '']);
    expect(lines(log)).toEqual(['on your allowlist', 'same owner']);
    const [sister, listed, stranger] = senders;
    expect(err).toContain(`nothing was sent: --allow does not grant reply to ${listed?.handle} (on your allowlist).`);
    expect(err).toContain(`the command was not run: --allow does not grant run to ${stranger?.handle} (anyone).`);
    expect(err).not.toContain(sister?.handle);
    const records = out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(records.map(({ outcome }) => outcome).sort()).toEqual(['replied', 'silent', 'silent']);
    expect(records.find(({ from }) => from === stranger?.handle)).toMatchObject({ exit_code: null, tries: 0 });
  });

  it('ends without commands that the next run would wait for', async () => {
    await answerAll('true', []);
    const { err } = await answerAll('true', ['-v']);
    expect(err).not.toContain('waiting for the commands of the previous run');
  });

  it('sends no notice of a failure without reply', async () => {
    const { answers, out } = await answerAll('false', ['--allow', 'anyone=run', '--allow', 'same-owner=reply']);
    expect(answers).toEqual(['Sorry, I could not process this message.', '', '']);
    expect(
      out
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).outcome),
    ).toEqual(['failed', 'failed', 'failed']);
  });

  it('ends the run at a failure with --on-failure stop, with the right to reply or without', async () => {
    const { code, answers } = await answerAll('false', ['--allow', 'anyone=run', '--on-failure', 'stop']);
    expect(code).not.toBe(0);
    expect(answers).toEqual(['', '', '']);
  });

  it('reads the allowlist once for messages that arrive together, and says once that it cannot', async () => {
    const said: string[] = [];
    const output = { note: async (text: string) => void said.push(text), detail: async () => {} };
    const token = await me.token('api', ['sessions:read']);
    const requests: string[] = [];
    const client = connect({
      service,
      credential: {
        ...createTokenCredential({ api: token, ws: undefined }),
        async accessToken(resource) {
          requests.push(resource);
          return { token, expiresAtMs: undefined, scope: undefined };
        },
      },
    });
    const context = { clock: systemClock, output, globals: {} };
    const find = createRelations({ context, client, me: me.handle, signal: new AbortController().signal });
    expect(await Promise.all(senders.slice(1).map(({ handle }) => find(handle)))).toEqual(['anyone', 'anyone']);
    expect(said).toEqual([`Cannot read the allowlist of ${me.handle}: INSUFFICIENT_SCOPE.`]);
    expect(requests).toHaveLength(1);
  });

  it('has only the rights run and reply', async () => {
    expect(await refused('read')).toMatchObject({ code: 2, err: expect.stringContaining("'read' is not a right") });
    expect(await refused('friends=run')).toMatchObject({ code: 2, err: expect.stringContaining('is not a relation') });
  });
});
