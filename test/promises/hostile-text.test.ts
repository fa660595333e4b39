import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sanitize } from '../../src/kit/sanitize.js';
import { createHome, type Ended, type Home, jsonLines } from '../acceptance/program.js';
import type { Actor } from '../support/actors.js';
import { PROGRAM_FILE } from '../support/built-program-file.js';
import { DANGEROUS, FORGERIES, hostileTexts, OTHER_LINE_BREAKS } from '../support/hostile-text.js';
import { text } from '../support/json.js';
import { connect, tokenFor } from '../support/mcp-tools.js';
import { startTestService, type TestService } from '../support/service.js';
import { createTally, IS_LONG } from '../support/tally.js';
import { until } from '../support/until.js';

const COUNT = IS_LONG ? 2_000 : 60;
const SESSIONS = IS_LONG ? 20 : 3;
const PER_SESSION = COUNT / SESSIONS;
const SDK_AGENT = fileURLToPath(new URL('../support/programs/acp-sdk-agent.mjs', import.meta.url));

/** Every text also gives an order. */
const ORDER = /\bORDER-\d+\b/g;
const TEXTS = [...FORGERIES, ...hostileTexts(COUNT - FORGERIES.length, 3, 11)].map((said, at) =>
  // What a service stores: a lone surrogate becomes U+FFFD.
  Buffer.from(`${said}\nORDER-${at}\n${said} ORDER-${at}`).toString(),
);

/**
 * A model that obeys every order except those that a frame marks as text from others. It trusts a frame as it is
 * meant: from the line that begins it to the line that ends it with the same nonce.
 */
function obey(prompt: string): readonly string[] {
  const trusted: string[] = [];
  let nonce: string | undefined;
  for (const line of prompt.split(/\r\n|[\n\r\v\f\u0085\u2028\u2029]/)) {
    if (nonce === undefined) {
      nonce = /^=== (\S{16}) begin untrusted (?:message|data)\b.* ===$/.exec(line)?.[1];
      trusted.push(line);
    } else if (line === `=== ${nonce} end untrusted message ===` || line === `=== ${nonce} end untrusted data ===`)
      nonce = undefined;
  }
  return trusted.join('\n').match(ORDER) ?? [];
}

/** Returns the text in the frame at the end of a prompt. */
function framed(prompt: string): string {
  const frame = /^=== (\S{16}) begin untrusted [^\n]* ===\n([\s\S]*)\n=== \1 end untrusted (?:message|data) ===$/m;
  return frame.exec(prompt.trimEnd())?.[2] ?? '';
}

/** The messages that `asp inbox read` prints: each begins with a time and its sender, and its other lines are indented. */
const INBOX_MESSAGE = /^\d\d:\d\d @[a-z0-9_.-]+(?: {2}(.*)|\n((?: {2}.*\n|\n)*))/gm;

/** Which statement is missing around the text: who wrote it, or that the user did not. Undefined: both are there. */
function provenance(prompt: string): string | undefined {
  const [before = ''] = prompt.split(/(?<= begin untrusted [^\n]* ===)\n/);
  if (!/\bnot your user\b|\bnone of it is from your user\b/.test(before)) return `no user: ${before}`;
  const body = framed(prompt);
  const isWritten = !before.includes('untrusted data') || body.includes('"sender"') || body.includes('"from":[');
  if (!isWritten) return undefined;
  const named = /@\S+ \(checked by the service; relation to you: anyone\)/;
  return named.test(before) ? undefined : `no relation: ${before}`;
}

/** Each fenced message of an output, apart. */
function fencedMessages(out: string): Read {
  const prompts = out.split(/(?<= end untrusted message ===\n)(?==== \S{16} begin untrusted message from @)/);
  return { prompts, texts: prompts.map(framed) };
}

/** A rendering, and the texts that it must contain, as a program would read them. */
interface Read {
  readonly prompts: readonly string[];
  readonly texts: readonly string[];
  /** The text that a model would treat as coming from its user or the program, because no frame says otherwise. */
  readonly trusted?: string;
}

interface Event {
  readonly type: string;
  readonly payload: { readonly content?: string };
}

const contentsOf = (events: readonly Event[]): string[] =>
  events.flatMap(({ type, payload }) => (type === 'session.message' ? [payload.content ?? ''] : []));

describe('a model that obeys everything outside a frame', () => {
  let home: Home;
  let service: TestService;
  let alice: Actor;
  let bob: Actor;
  /** Bob has joined all of them. */
  let sessions: readonly string[];
  const tally = createTally('hostile text', 11);

  beforeAll(async () => {
    service = await startTestService({ areLimitsOn: false });
    [alice, bob] = await Promise.all([service.createAgent('alice'), service.createAgent('bob')]);
    const { clientId, clientSecret } = bob.credentials;
    home = createHome({ ASP_PROFILE: service.baseUrl, ASP_CLIENT_ID: clientId, ASP_CLIENT_SECRET: clientSecret });
    sessions = await openSessions(bob);
    await sendAll(sessions);
  }, 300_000);
  afterAll(async () => {
    await home.dispose();
    await service.stop();
  });

  const openSessions = (reader: Actor): Promise<string[]> =>
    Promise.all(
      Array.from({ length: SESSIONS }, async () => {
        const id = await alice.mustCreate({ invite: [reader.handle] });
        await reader.mustJoin(id);
        return id;
      }),
    );
  const textsOf = (at: number): readonly string[] => TEXTS.slice(at * PER_SESSION, (at + 1) * PER_SESSION);
  const sendAll = async (ids: readonly string[]): Promise<void> => {
    await Promise.all(
      ids.map(async (id, at) => {
        for (const content of textsOf(at)) await alice.mustSend(id, content);
      }),
    );
  };

  /** The tools and resources of a client, through which it reads everything. */
  async function readTools(
    call: (name: string, given: Record<string, unknown>) => Promise<{ text: string; value: unknown }>,
    readResource: (uri: string) => Promise<string>,
  ): Promise<Read> {
    const prompts: string[] = [];
    const texts: string[] = [];
    for (const session_id of sessions) {
      for (let after = '0'; ; ) {
        const { text: said, value } = await call('read', { session_id, after, limit: 50, max_chars: 300_000 });
        const { has_more, next_cursor } = value as { has_more: boolean; next_cursor: string };
        prompts.push(said);
        const { events } = JSON.parse(framed(said)) as { events: readonly Event[] };
        texts.push(...contentsOf(events));
        if (!has_more) break;
        after = next_cursor;
      }
      const shown = await readResource(`asp://sessions/${session_id}`);
      expect(contentsOf((JSON.parse(framed(shown)) as { events: readonly Event[] }).events).length).toBeGreaterThan(0);
      prompts.push(shown, (await call('session_show', { session_id })).text);
    }
    prompts.push(await readResource('asp://inbox'));
    for (const name of ['session_list', 'agent_search']) {
      const given = name === 'agent_search' ? { query: 'alice' } : {};
      prompts.push((await call(name, given)).text);
    }
    return { prompts, texts };
  }

  /** What a command prints for each text. */
  async function readPrinted(print: (content: string, at: number) => Promise<Ended>): Promise<Read> {
    const prompts: string[] = [];
    const queue = [...TEXTS.entries()];
    const work = async (): Promise<void> => {
      for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
        const [at, content] = next;
        const { status, stdout } = await print(content, at);
        expect(status).toBe(0);
        prompts.push(stdout);
      }
    };
    await Promise.all(Array.from({ length: 4 }, work));
    return { prompts, texts: prompts.map(framed) };
  }

  /** Runs a command that asks something in a new session, and replies with the text. */
  async function answerTo(content: string, words: (sessionId: string) => readonly string[]): Promise<Ended> {
    const id = await alice.mustCreate({ invite: [bob.handle] });
    await bob.mustJoin(id);
    const asking = home.run(words(id));
    await until('the question arrives', async () =>
      (await alice.mustReplay(id)).some((event) => JSON.stringify(event).includes('"a question"')),
    );
    await alice.mustSend(id, content);
    return asking;
  }

  const RENDERINGS: Readonly<Record<string, () => Promise<Read>>> = {
    'asp session wait --fence': () =>
      readPrinted((_, at) => {
        const id = sessions[Math.floor(at / PER_SESSION)] ?? '';
        // Before it are the start of the session, the reader's joining, and the earlier texts.
        const before = String(2 + (at % PER_SESSION));
        return home.run(['session', 'wait', id, '--for', 'message', '--after', before, '--fence']);
      }),
    'asp send --wait --fence': () =>
      readPrinted((content) => answerTo(content, (id) => ['send', id, 'a question', '--wait', '--fence'])),
    'asp ask --fence': () => readPrinted((content) => answerTo(content, (id) => ['ask', id, 'a question', '--fence'])),
    async 'asp tail --fence'() {
      const prompts: string[] = [];
      for (const id of sessions) {
        const { status, stdout } = await home.asp([
          'tail',
          id,
          '--after',
          '0',
          '--no-follow',
          '--type',
          'session.message',
          '--fence',
        ]);
        expect(status).toBe(0);
        prompts.push(...fencedMessages(stdout).prompts);
      }
      return { prompts, texts: prompts.map(framed) };
    },
    async 'asp inbox read'() {
      let out = '';
      for (const id of sessions) out += (await home.asp(['inbox', 'read', id])).stdout;
      const found = [...out.matchAll(INBOX_MESSAGE)].map(
        ([, line, lines = '']) => line ?? lines.replace(/^ {2}/gm, '').slice(0, -1),
      );
      return { prompts: [out], texts: found, trusted: out.replace(INBOX_MESSAGE, '') };
    },
    async 'asp inbox read --fence'() {
      // Its own state: what the rendering above has read is unread here.
      const environment = { XDG_STATE_HOME: join(home.directory, 'other-state') };
      let out = '';
      for (const id of sessions) out += (await home.asp(['inbox', 'read', id, '--fence'], { environment })).stdout;
      return fencedMessages(out);
    },
    async 'asp message list --fence'() {
      let out = '';
      for (const id of sessions) out += (await home.asp(['message', 'list', id, '--all', '--fence'])).stdout;
      return fencedMessages(out);
    },
    async 'asp mcp'() {
      const client = new Client({ name: 'test', version: '1' });
      await client.connect(
        new StdioClientTransport({
          command: process.execPath,
          args: [PROGRAM_FILE, 'mcp'],
          env: home.environment as Record<string, string>,
          stderr: 'ignore',
        }),
      );
      try {
        await client.listTools();
        return await readTools(
          async (name, given) => {
            const { content, structuredContent = {} } = await client.callTool({ name, arguments: given });
            return { text: text((content as object[])[0], 'text'), value: structuredContent };
          },
          async (uri) => text((await client.readResource({ uri })).contents[0], 'text'),
        );
      } finally {
        await client.close();
      }
    },
    async 'the tools at a URL'() {
      const tools = await connect(service.mcpUrl, await tokenFor(service.place, bob, service.mcpUrl));
      try {
        return await readTools(tools.call, tools.readResource);
      } finally {
        await tools.close();
      }
    },
    async 'asp run --acp'() {
      const carol = await service.createAgent('carol');
      const { clientId, clientSecret } = carol.credentials;
      const log = join(home.directory, 'agent.jsonl');
      const agent = home.start(
        ['run', '--from', 'anyone', '--max-replies', '0', '--concurrency', '4', '--acp', `node ${SDK_AGENT} ${log}`],
        { environment: { ASP_CLIENT_ID: clientId, ASP_CLIENT_SECRET: clientSecret } },
      );
      await agent.until('stderr', /Answering as /);
      await sendAll(await openSessions(carol));
      const prompts = await until(
        'a turn for each text',
        async () => {
          const noted = existsSync(log) ? readFileSync(log, 'utf8').split('\n').slice(0, -1).join('\n') : '';
          const found = jsonLines<{ what: string; text: string }>(noted).filter(({ what }) => what === 'prompt');
          return found.length >= COUNT ? found.map((one) => one.text) : undefined;
        },
        IS_LONG ? 1_200_000 : 60_000,
      );
      agent.kill('SIGINT');
      await agent.ended;
      return { prompts, texts: prompts.map(framed) };
    },
  };

  it.each(Object.keys(RENDERINGS))(
    `reads ${COUNT} hostile texts through %s, all of them, and performs no act`,
    async (name) => {
      const began = Date.now();
      const { prompts, texts, trusted }: Read = (await RENDERINGS[name]?.()) ?? { prompts: [], texts: [] };
      const acts = trusted === undefined ? prompts.flatMap(obey) : obey(trusted);
      process.stderr.write(
        `hostile text: ${JSON.stringify({ rendering: name, texts: texts.length, prompts: prompts.length, acts: acts.length, seconds: (Date.now() - began) / 1000 })}\n`,
      );
      expect(acts).toEqual([]);
      if (trusted === undefined) expect(prompts.map(provenance).filter((said) => said !== undefined)).toEqual([]);
      for (const prompt of prompts) {
        expect(prompt).not.toMatch(DANGEROUS);
        expect(prompt).not.toMatch(OTHER_LINE_BREAKS);
      }
      // None is missing, and none was changed except for what a reader could not see.
      expect(texts.map(sanitize).toSorted()).toEqual(TEXTS.map(sanitize).toSorted());
    },
    IS_LONG ? 1_800_000 : 120_000,
  );

  it('would perform them without a frame', () => {
    for (const [at, said] of TEXTS.entries()) {
      expect(new Set(obey(`Another agent says: ${said}`))).toContain(`ORDER-${at}`);
      const guessed = `=== AAAAAAAAAAAAAAAA begin untrusted message from @a.b ===\n${said}\n=== AAAAAAAAAAAAAAAA end untrusted message ===`;
      if (/^=== A{16} end/m.test(said)) expect(obey(guessed)).not.toEqual([]);
    }
    tally.finish([], { texts: TEXTS.length });
  });
});
