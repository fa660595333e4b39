import { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { documentOf, type Stage, startStage } from './acting.js';
import { optionsOf, runWords } from './captured-run.js';
import { startScript } from './scripted-service.js';

const SESSION = `sess_${'0'.repeat(26)}`;

describe('the words of what reads sessions', () => {
  it.each([
    [`message list ${SESSION} -n 3`, { limit: 3, after: undefined }],
    [`messages list ${SESSION} --after 2 --from a.b`, { limit: 50, after: 2, from: ['@a.b'] }],
    [`message search two words --session ${SESSION} --with a.b`, { text: 'two words', counterpart: '@a.b' }],
    [`session wait ${SESSION} --for joined:a.b`, { condition: { kind: 'joined', handle: '@a.b' } }],
    [`session export ${SESSION}`, { output: '-', format: 'jsonl', hasAttachments: false }],
    [`session export ${SESSION} -o talk.md`, { output: 'talk.md', format: 'md' }],
    [`session export ${SESSION} -o talk.md --format jsonl`, { format: 'jsonl' }],
  ])('asp %s', async (line, options) => expect(await optionsOf(line)).toMatchObject(options));

  it.each([
    [`session wait ${SESSION}`, /Missing --for/],
    [`session wait ${SESSION} --for jioned`, /did you mean joined/],
    [`session wait ${SESSION} --for ended:a.b`, /Unknown condition 'ended:a.b'/],
    [`session export ${SESSION} --with-attachments`, /needs a folder/],
    [`session export ${SESSION} --fields events`, /--fields cannot be used on standard output/],
    [`session export ${SESSION} -o - --fields events`, /--fields cannot be used on standard output/],
    [`session export ${SESSION} --format md --jq .type`, /--format and --jq cannot be used together/],
    [`message list ${SESSION} -n 3 --after 1`, /cannot be used together/],
    ['message search x', /2 to 100/],
  ])('asp %s is refused with exit 2', async (line, said) => {
    const { code, err } = await runWords(line);
    expect(err).toMatch(said);
    expect(code).toBe(2);
  });
});

describe('a session that is read', () => {
  let stage: Stage;
  let session: string;
  beforeAll(async () => {
    stage = await startStage();
    const { alice, bob } = stage;
    session = (await stage.as(alice, `send ${bob.handle} first --topic "# a topic"`)).out.trim();
    await stage.as(bob, `session join ${session}`);
    await stage.as(bob, ['send', session, 'second\n# not a heading']);
    await stage.as(alice, `send ${session} third`);
  });
  afterAll(() => stage.stop());

  const texts = (document: Record<string, unknown>): unknown[] =>
    (document['items'] as { content: unknown }[]).map(({ content }) => content);

  it('message list: the last ones, the first after a sequence, by sender', async () => {
    const { bob, alice } = stage;
    expect(texts(documentOf(await stage.as(bob, `message list ${session} -n 2 --json`)))).toEqual([
      'second\n# not a heading',
      'third',
    ]);
    const page = documentOf(await stage.as(bob, `message list ${session} --after 0 --limit 1 --json`));
    expect(texts(page)).toEqual(['first']);
    const rest = documentOf(await stage.as(bob, `message list ${session} --after ${page['next_cursor']} --json`));
    expect(texts(rest)).toHaveLength(2);
    expect(texts(documentOf(await stage.as(bob, `message list ${session} --from ${alice.handle} --json`)))).toEqual([
      'first',
      'third',
    ]);
    const piped = (await stage.as(bob, `message list ${session} -n 2`)).out.trimEnd().split('\n');
    expect(piped.map((line) => line.split('\t').at(-1))).toEqual(['second # not a heading', 'third']);
  });

  it('session show shows several sessions, a line of JSON for each', async () => {
    const { alice, bob } = stage;
    const other = await alice.mustCreate({ invite: [bob.handle] });
    const { out } = await stage.as(bob, `session show ${session} ${other} --json`);
    expect(
      out
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line).id),
    ).toEqual([session, other]);
    const shown = (await stage.as(bob, `session show ${session} ${other}`)).out;
    expect(shown).toMatch(new RegExp(`^${session} [\\s\\S]*\\n\\n${other} `));
    const partly = await stage.as(bob, `session show ${SESSION} ${other} --json`);
    expect(JSON.parse(partly.out).id).toBe(other);
    expect(JSON.parse(partly.err).error).toMatchObject({ code: 'ASP_PARTIAL', message: 'Showed 1 of 2 sessions.' });
    expect((await stage.as(bob, `session show ${SESSION} ${SESSION}`)).code).toBe(3);
  });

  it('api -X HEAD prints the status and the headers of what GET returns', async () => {
    const { code, out } = await stage.as(stage.bob, `api sessions/${session} -X HEAD -i`);
    expect({ code, first: out.split('\n')[0] }).toMatchObject({ code: 0, first: expect.stringContaining('200') });
    expect(out).toMatch(/^content-type: application\/json/m);
    expect((await stage.as(stage.bob, `api sessions/${SESSION} -X HEAD`)).code).toBe(3);
  });

  it('message search finds the sent message', async () => {
    const found = documentOf(await stage.as(stage.bob, `message search third --session ${session} --json`));
    expect(texts(found)).toEqual(['third']);
    expect(await stage.as(stage.bob, 'message search nothinglikeit')).toMatchObject({ code: 0, out: '' });
  });

  it('message search follows the cursor, and prints the newest of all pages, each once', async () => {
    const message = (sequence: number) => ({
      id: `msg_${String(sequence).padStart(26, '0')}`,
      session_id: SESSION,
      sender: '@a.b',
      sequence,
      content: `heron ${sequence}`,
      created_at: sequence,
    });
    const page = (query: string, sequences: readonly number[], cursor: string | null | undefined) => ({
      call: `GET /search/messages?q=heron&limit=3${query}`,
      reply: { messages: sequences.map(message), ...(cursor !== undefined && { next_cursor: cursor }) },
    });
    const service = await startScript([
      page('', [5, 2], 'one'),
      page('&cursor=one', [], 'two'),
      // A service without paging sends no cursor at all.
      page('&cursor=two', [7, 5, 4], undefined),
    ]);
    const { out } = await runWords('message search heron --limit 3 --json', { environment: service.environment });
    expect(texts(JSON.parse(out))).toEqual(['heron 7', 'heron 5', 'heron 4']);
    await service.close();
  });

  it('export: JSON lines are the events; Markdown quotes what others wrote', async () => {
    const lines = (await stage.as(stage.bob, `session export ${session}`)).out.trimEnd().split('\n');
    const sequences = lines.map((line) => (JSON.parse(line) as { sequence: number }).sequence);
    expect(sequences).toEqual([...sequences].sort((one, other) => one - other));
    expect(sequences.length).toBeGreaterThanOrEqual(4);
    const markdown = (await stage.as(stage.bob, `session export ${session} --format md`)).out;
    expect(markdown).toContain('# \\# a topic');
    expect(markdown).toContain('> second\n> # not a heading');
    expect(markdown).not.toMatch(/^# not/m);
    const file = join(mkdtempSync(join(tmpdir(), 'asp-export-')), 'talk.md');
    await stage.as(stage.bob, `session export ${session} --format md -o ${file}`);
    expect(markdown).toBe(readFileSync(file, 'utf8'));
    expect(markdown, 'what follows a quotation is no part of it').not.toMatch(/^>.*\n[^>\n]/m);
  });

  it('export: --jq runs for each event on standard output', async () => {
    const { code, out } = await stage.as(stage.bob, `session export ${session} --jq .sequence`);
    const sequences = out.trimEnd().split('\n').map(Number);
    expect({ code, first: sequences[0] }).toEqual({ code: 0, first: 1 });
    expect(sequences.length).toBeGreaterThanOrEqual(4);
  });

  it('export into a folder includes its files, and never overwrites anything', async () => {
    const { alice, bob } = stage;
    const id = (await stage.as(alice, 'attachment upload - --filename a.txt', { stdin: 'bytes' })).out.trim();
    await stage.as(alice, `send ${session} --attach ${id}`);
    const folder = mkdtempSync(join(tmpdir(), 'asp-export-'));
    const words = ['session', 'export', session, '-o', folder, '--with-attachments', '--json'];
    const result = documentOf(await stage.as(bob, words));
    expect(result).toMatchObject({ path: join(folder, `${session}.jsonl`), attachments: [{ id }] });
    expect(readdirSync(join(folder, 'attachments'))).toEqual([`${id}-a.txt`]);
    expect(readFileSync(join(folder, 'attachments', `${id}-a.txt`), 'utf8')).toBe('bytes');
    expect((await stage.as(bob, words)).code).toBe(6);
    expect((await stage.as(bob, [...words, '--force'])).code).toBe(0);
  });

  it('export says what it saved if an attachment cannot be saved: exit 10', async () => {
    const { alice, bob } = stage;
    const upload = async (name: string): Promise<string> =>
      (await stage.as(alice, `attachment upload - --filename ${name}`, { stdin: 'bytes' })).out.trim();
    const [one, two] = [await upload('one.txt'), await upload('two.txt')];
    const id = (await stage.as(alice, `send ${bob.handle} files --attach ${one} --attach ${two}`)).out.trim();
    await stage.as(bob, `session join ${id}`);
    const folder = mkdtempSync(join(tmpdir(), 'asp-export-'));
    mkdirSync(join(folder, 'attachments'));
    writeFileSync(join(folder, 'attachments', `${two}-two.txt`), 'mine');
    const { code, out, err } = await stage.as(bob, ['session', 'export', id, '-o', folder, '--with-attachments']);
    const path = join(folder, `${id}.jsonl`);
    expect({ code, out }).toEqual({ code: 10, out: `${path}\n` });
    expect(err).toContain(`The transcript is in ${path}. 1 of 2 attachments were saved; ${two} failed.`);
    const other = mkdtempSync(join(tmpdir(), 'asp-export-'));
    mkdirSync(join(other, 'attachments'));
    writeFileSync(join(other, 'attachments', `${one}-one.txt`), 'mine');
    const again = await stage.as(bob, ['session', 'export', id, '-o', other, '--with-attachments', '--json']);
    const { error } = JSON.parse(again.err.trimEnd().split('\n').at(-1) ?? '');
    expect(error).toMatchObject({ outcome: 'applied', hint: expect.stringContaining('already exists') });
  });

  it('--fence overrides ASP_FORMAT, as options do', async () => {
    const environment = { ASP_FORMAT: 'json' };
    const FENCED = /^=== \S{16} begin untrusted /;
    for (const words of [
      `message list ${session} -n 1 --fence`,
      `session wait ${session} --for message --after 0 --fence`,
      'inbox --fence',
      `inbox read ${session} --fence`,
    ]) {
      const { code, out } = await stage.as(stage.bob, words, { environment });
      expect({ words, code, out }).toEqual({ words, code: 0, out: expect.stringMatching(FENCED) });
    }
  });

  it('wait: a condition that is already met succeeds at once, without an event', async () => {
    const { alice, bob } = stage;
    const met = documentOf(await stage.as(alice, `session wait ${session} --for joined:${bob.handle} --json`));
    expect(met).toEqual({ session_id: session, condition: `joined:${bob.handle}`, event: null });
    expect((await stage.as(alice, `session wait ${session} --for joined`)).out).toBe(`${session}\n`);
  });

  it('wait: a reply after a sequence is printed', async () => {
    expect((await stage.as(stage.alice, `session wait ${session} --for reply --after 0`)).out).toBe(
      'second\n# not a heading\n',
    );
  });

  it('wait: the event ends the wait; if it does not come, the exit code is 8', async () => {
    const { alice, bob } = stage;
    const waiting = stage.as(alice, `session wait ${session} --for reply --timeout 20s`);
    const answering = setInterval(() => void stage.as(bob, `send ${session} late`), 300);
    const met = await waiting.finally(() => clearInterval(answering));
    expect(met).toMatchObject({ code: 0, out: 'late\n' });
    expect((await stage.as(alice, `session wait ${session} --for ended --timeout 300ms`)).code).toBe(8);
  });

  it('wait: a reply is found although everyone else has left since, and without one the wait ends', async () => {
    const { alice, bob } = stage;
    const carol = await stage.service.createAgent('carol');
    const id = await alice.mustCreate({ invite: [bob.handle, carol.handle] });
    for (const one of [bob, carol]) await one.mustJoin(id);
    const { sequence } = await alice.mustSend(id, 'anyone?');
    await bob.mustLeave(id);
    await carol.mustSend(id, 'me, and goodbye');
    await carol.mustLeave(id);
    const found = await stage.as(alice, `session wait ${id} --for reply --after ${sequence} --timeout 20s`);
    expect(found).toMatchObject({ code: 0, out: 'me, and goodbye\n' });
    const { sequence: unheard } = await alice.mustSend(id, 'still there?');
    const never = await stage.as(alice, `session wait ${id} --for reply --after ${unheard} --timeout 20s`);
    expect(never).toMatchObject({ code: 3, err: expect.stringContaining('can no longer happen') });
    const asked = await stage.as(alice, `send ${id} hello? --wait --timeout 20s --json`);
    expect(asked).toMatchObject({ code: 3, err: expect.stringContaining('no one else is in the session') });
  });

  it('wait: ended succeeds even if the session had already ended', async () => {
    const { alice } = stage;
    const waiting = stage.as(alice, `session wait ${session} --for ended --timeout 20s --json`);
    await stage.as(stage.bob, `session end ${session}`);
    expect(documentOf(await waiting)).toMatchObject({ condition: 'ended' });
    expect((await stage.as(alice, `session wait ${session} --for ended`)).code).toBe(0);
    const reply = await stage.as(alice, `session wait ${session} --for reply --timeout 10s`);
    expect(reply.code).toBe(3);
    expect(reply.err).toContain('ended');
  });
});
