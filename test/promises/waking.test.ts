import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import {
  createHome,
  type Home,
  jsonLines,
  type Running,
  type ServiceProcess,
  startServe,
} from '../acceptance/program.js';
import { type Actor, actorOf, operate } from '../support/actors.js';
import { type HttpRelay, startHttpRelay } from '../support/http-relay.js';
import { text } from '../support/json.js';
import { discover } from '../support/oauth.js';
import { operatorOf } from '../support/operator.js';
import { type ModelTurn, startScriptedModel } from '../support/scripted-model.js';
import { createTally, IS_LONG, quantile } from '../support/tally.js';
import { until } from '../support/until.js';

const SDK_AGENT = fileURLToPath(new URL('../support/programs/acp-sdk-agent.mjs', import.meta.url));
/** The node_modules in which .ci/run installs real programs. */
const PROGRAMS = process.env['ASP_TEST_AGENTS'];
const ME = '@demo.you';
const BOT = '@alice.bot';
const SESSIONS = 3;
const ORDER = ['stored', 'delivered', 'taken', 'answered'];
const WAIT_MS = 60_000;
/** How soon an idle agent has a message. Only the long form measures enough of them. */
const IDLE_P95_MAX_MS = 2_000;

/** An agent program as `asp run --acp` starts it, and the turns that its model received. */
interface AgentProgram {
  readonly command: string;
  /** Whether a turn counts when the program takes it, instead of when its model receives it. */
  readonly isSeenAtOnce: boolean;
  turns(): readonly ModelTurn[];
  stop(): Promise<void>;
}

/** The agent on the protocol's SDK records its turns itself. */
async function startSdkAgent({ directory }: Home): Promise<AgentProgram> {
  const log = join(directory, 'agent.jsonl');
  return {
    command: `node ${SDK_AGENT} ${log}`,
    isSeenAtOnce: true,
    turns() {
      const lines = existsSync(log) ? readFileSync(log, 'utf8').split('\n').slice(0, -1) : [];
      const entries = lines.length === 0 ? [] : jsonLines<ModelTurn & { what: string }>(lines.join('\n'));
      return entries.filter(({ what }) => what === 'prompt');
    },
    stop: async () => {},
  };
}

async function startClaudeCode(): Promise<AgentProgram> {
  const { url, turns, stop } = await startScriptedModel();
  const settings = `ANTHROPIC_BASE_URL=${url} ANTHROPIC_API_KEY=x CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 IS_SANDBOX=1`;
  const command = `env ${settings} node ${PROGRAMS}/@zed-industries/claude-code-acp/dist/index.js`;
  return { command, isSeenAtOnce: false, turns: () => turns, stop };
}

async function startOpenCode({ directory }: Home): Promise<AgentProgram> {
  const { url, turns, stop } = await startScriptedModel();
  const options = { baseURL: `${url}/v1`, apiKey: 'x' };
  const models = { one: { name: 'One' } };
  const provider = { script: { npm: '@ai-sdk/openai-compatible', name: 'Script', options, models } };
  const config = { autoupdate: false, share: 'disabled', model: 'script/one', small_model: 'script/one', provider };
  mkdirSync(join(directory, '.config/opencode'), { recursive: true });
  writeFileSync(join(directory, '.config/opencode/opencode.json'), JSON.stringify(config));
  const settings = 'OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_LSP_DOWNLOAD=1';
  const command = `env ${settings} ${PROGRAMS}/opencode-linux-x64/bin/opencode acp`;
  return { command, isSeenAtOnce: false, turns: () => turns, stop };
}

/**
 * Each round sends 10 messages: 3 to an idle agent, 3 during a turn, 2 around each kill, 1 per cut and per death of the
 * service.
 */
const AGENTS = [
  { name: 'on the SDK of the protocol', start: startSdkAgent, rounds: IS_LONG ? 50 : 3, isThere: true },
  { name: 'Claude Code', start: startClaudeCode, rounds: IS_LONG ? 25 : 1, isThere: PROGRAMS !== undefined },
  { name: 'OpenCode', start: startOpenCode, rounds: IS_LONG ? 25 : 1, isThere: PROGRAMS !== undefined },
];

interface Sent {
  readonly content: string;
  readonly session: string;
  readonly at: number;
  readonly sequence: number;
  readonly id: string;
  /** The agent died while it was handling this message. */
  isCutOff: boolean;
  state: number;
}

describe.each(AGENTS)('a message wakes an agent: $name', ({ start, rounds, isThere }) => {
  let home: Home;
  let relay: HttpRelay;
  let service: ServiceProcess;
  let agent: Running;
  let me: Actor;
  let program: AgentProgram;

  const serve = async (): Promise<ServiceProcess> => {
    const address = `http://127.0.0.1:${relay.port}`;
    const started = await startServe(home, [
      '--seed',
      'demo.you,alice.bot',
      '--limits',
      'off',
      '--public-url',
      address,
    ]);
    relay.targetPort = Number((await started.running.until('stderr', /Listening on \S+:(\d+)\./))[1]);
    return started;
  };
  const signIn = async (credentials?: Actor['credentials']): Promise<Actor> => {
    const place = await discover(`http://127.0.0.1:${relay.port}/v1`);
    if (credentials !== undefined) return actorOf(place, ME, credentials);
    const client = await operate(operatorOf(home), 'POST', '/clients', { handle: ME });
    return actorOf(place, ME, { clientId: text(client, 'client_id'), clientSecret: text(client, 'client_secret') });
  };
  const startAgent = async (): Promise<void> => {
    const words = ['run', '-a', BOT, '--from', ME, '--max-replies', '0', '--acp', program.command];
    agent = home.start(words);
    await agent.until('stderr', /Answering as @alice\.bot/);
  };

  beforeAll(async () => {
    if (!isThere) return;
    home = createHome();
    program = await start(home);
    relay = await startHttpRelay();
    service = await serve();
    for (const handle of [ME, BOT]) expect(await home.run(['login', handle, '--yes'])).toMatchObject({ status: 0 });
    me = await signIn();
    await startAgent();
  });
  afterAll(async () => {
    if (!isThere) return;
    agent.kill('SIGINT');
    await agent.ended;
    await program.stop();
    await service.stop();
    await relay.stop();
    await home.dispose();
  });

  /** Returns the turns whose input contains this message. */
  const promptsOf = (content: string): ModelTurn[] =>
    program.turns().filter(({ text }) => text.includes(`\n${content}\n`));

  it.skipIf(!isThere)(
    `each of ${rounds * 10} messages is in exactly one turn's input, or marked after a kill, and every reported state is true`,
    async () => {
      const tally = createTally('waking');
      const sessions = await Promise.all(Array.from({ length: SESSIONS }, () => me.mustCreate({ invite: [BOT] })));
      const all: Sent[] = [];
      const untrue: string[] = [];
      const idleMs: number[] = [];
      let count = 0;
      // A retry of this test writes to the same log.
      const run = randomUUID();

      /** Retries an unanswered request with its key, as a client does; its token may have expired. */
      const persist = async <Value>(work: () => Promise<Value | undefined>): Promise<Value> => {
        const attempt = async (): Promise<Value | undefined> => {
          const value = await work().catch(() => undefined);
          if (value === undefined) me = await signIn(me.credentials).catch(() => me);
          return value;
        };
        return until('the service answers', attempt, WAIT_MS);
      };
      const send = async (session: string, verb: string): Promise<Sent> => {
        count += 1;
        const content = `${verb} number-${count}-of-${run}`;
        const key = randomUUID();
        const at = Date.now();
        const reply = await persist(async () => {
          const answer = await me.post(`/sessions/${session}/messages`, { content }, { key });
          return answer.status < 300 ? (answer.json as { message_id: string; sequence: number }) : undefined;
        });
        const sent = {
          content,
          session,
          at,
          sequence: reply.sequence,
          id: reply.message_id,
          isCutOff: false,
          state: 0,
        };
        all.push(sent);
        return sent;
      };
      /** Compares the state reported by the service with the program's log, which is read afterward. */
      const check = async (sent: Sent): Promise<string> => {
        const { state, answered } = await persist(async () => {
          const { status, json } = await me.get(`/sessions/${sent.session}/delivery?sequence=${sent.sequence}`);
          if (status !== 200) return undefined;
          const [recipient] = (json as { recipients: { state: string; answered_sequence: number | null }[] })
            .recipients;
          return recipient && { state: recipient.state, answered: recipient.answered_sequence };
        });
        const rank = ORDER.indexOf(state);
        if (rank < sent.state) untrue.push(`${sent.content}: ${ORDER[sent.state]}, then ${state}`);
        sent.state = rank;
        if (rank >= 2 && program.isSeenAtOnce && promptsOf(sent.content).length === 0)
          untrue.push(`${sent.content}: ${state}, but in no turn`);
        if ((state === 'answered') !== (answered !== null))
          untrue.push(`${sent.content}: ${state}, answer ${answered}`);
        return state;
      };
      const prompted = (sent: Sent): Promise<unknown> =>
        until(`a turn with ${sent.content}`, async () => promptsOf(sent.content).length > 0, WAIT_MS);
      const answered = (sent: Sent): Promise<unknown> =>
        until(`an answer to ${sent.content}`, async () => (await check(sent)) === 'answered', WAIT_MS);

      for (let round = 0; round < rounds; round += 1) {
        const session = sessions[round % SESSIONS] ?? '';
        for (let index = 0; index < 3; index += 1) {
          const sent = await send(session, 'idle');
          await answered(sent);
          idleMs.push((promptsOf(sent.content)[0]?.at ?? Number.NaN) - sent.at);
        }

        const first = await send(session, 'pause');
        await prompted(first);
        const during = [await send(session, 'midturn'), await send(session, 'midturn')];
        if (promptsOf(during[1]?.content ?? '').length === 0) tally.fired('midturn');
        for (const sent of [first, ...during]) await answered(sent);

        const cutOff = await send(session, 'slow');
        await prompted(cutOff);
        cutOff.isCutOff = true;
        agent.kill('SIGKILL');
        await agent.ended;
        tally.fired('kill of the agent');
        const meanwhile = await send(session, 'away');
        const state = await check(meanwhile);
        if (state !== 'stored') untrue.push(`${meanwhile.content}: ${state}, but no agent runs`);
        await startAgent();
        await answered(cutOff);
        await answered(meanwhile);

        const unlucky = send(session, 'pause');
        await pause(tally.random.below(400));
        service.running.kill('SIGKILL');
        await service.running.ended;
        tally.fired('kill of the service');
        service = await serve();
        await answered(await unlucky);

        const torn = send(session, 'pause');
        await pause(tally.random.below(200));
        relay.cut();
        tally.fired('cut');
        await answered(await torn);
      }

      const repeated = all.filter(({ content }) => promptsOf(content).length > 1);
      const wrong = all.filter(({ content, isCutOff }) => {
        const [, ...more] = promptsOf(content);
        return promptsOf(content).length === 0 || more.some((one) => !isCutOff || !one.text.includes('cut off'));
      });
      let unanswered = 0;
      for (const session of sessions) {
        const events = (await persist(() => me.mustReplay(session))) as {
          type: string;
          payload: { sender: string; metadata?: { in_reply_to?: string } };
        }[];
        const names = events.map(({ payload }) => payload.sender === BOT && payload.metadata?.in_reply_to);
        for (const { id } of all.filter((sent) => sent.session === session))
          if (names.filter((name) => name === id).length !== 1) unanswered += 1;
      }
      tally.finish(['midturn', 'kill of the agent', 'kill of the service', 'cut'], {
        messages: all.length,
        repeated_and_marked: repeated.length,
        wrong: wrong.length,
        not_answered_once: unanswered,
        untrue_states: untrue.length,
        idle_p50_ms: quantile(idleMs, 0.5),
        idle_p95_ms: quantile(idleMs, 0.95),
      });
      expect([wrong, untrue, unanswered]).toEqual([[], [], 0]);
      expect(repeated.length).toBe(rounds);
      expect(all).toHaveLength(rounds * 10);
      if (IS_LONG) expect(quantile(idleMs, 0.95)).toBeLessThanOrEqual(IDLE_P95_MAX_MS);
    },
    IS_LONG ? 3_600_000 : 180_000,
  );
});
