import { once } from 'node:events';
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';

import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import type { Actor } from '../support/actors.js';
import { type HttpRelay, type Relayed, startHttpRelay } from '../support/http-relay.js';
import { actorIn } from '../support/operator.js';
import { until } from '../support/until.js';
import {
  createHome,
  type Home,
  isRunning,
  json,
  jsonLines,
  type Running,
  type ServiceProcess,
  startServe,
  stopAll,
} from './program.js';

interface Envelope {
  type: string;
  event_id: string;
  sequence: number;
  payload: { id: string; sender: string; content: string; metadata?: { in_reply_to?: string } };
}

interface Told {
  created_at: number;
  at: number;
  duration_ms: number;
  code: string | null;
  outcome: string;
  exit_code: number | null;
  tries: number;
  message_id: string;
  reply: { message_id: string } | null;
}

const ME = '@demo.you';
const BOT = '@alice.bot';

/** Prints the content of the message on standard input, if it has no quotes. Node.js would take 20 times as long. */
const SAID = `sed 's/.*"content":"\\([^"]*\\)".*/\\1/'`;

describe('asp run', () => {
  let home: Home;
  let relay: HttpRelay;
  let service: ServiceProcess;
  /** The asker uses the REST API, because starting a program for each question takes a fifth of a second. */
  let me: Actor;
  const agents: Running[] = [];

  const serve = async (): Promise<ServiceProcess> => {
    const address = `http://127.0.0.1:${relay.port}`;
    const words = ['--seed', 'demo.you,alice.bot,bob.bot', '--limits', 'off', '--public-url', address];
    const started = await startServe(home, words);
    relay.targetPort = Number((await started.running.until('stderr', /Listening on \S+:(\d+)\./))[1]);
    return started;
  };

  beforeAll(async () => {
    home = createHome();
    relay = await startHttpRelay();
    service = await serve();
    for (const handle of [ME, BOT, '@bob.bot'])
      expect(await home.run(['login', handle, '--yes'])).toMatchObject({ status: 0 });
    me = await actorIn(home, `http://127.0.0.1:${relay.port}/v1`, ME);
  });
  afterEach(async () => {
    relay.onRequest = undefined;
    await stopAll(agents);
  });
  afterAll(async () => {
    await service.stop();
    await relay.stop();
    await home.dispose();
  });

  /** Writes a script in the home, to use as an agent's command. */
  const script = (name: string, lines: string): string => {
    const path = join(home.directory, name);
    writeFileSync(path, `#!/bin/bash\n${lines}\n`);
    chmodSync(path, 0o755);
    return path;
  };

  /** Starts an agent and waits until it listens. */
  const start = async (command: string, words: readonly string[] = []): Promise<Running> => {
    const from = words.includes('--from') ? [] : ['--from', ME];
    const agent = home.start(['run', '-a', BOT, '--exec', command, ...from, ...words]);
    agents.push(agent);
    await agent.until('stderr', /Answering as @alice\.bot/);
    return agent;
  };

  const asp = async (...words: string[]): Promise<string> => {
    const { status, stdout, stderr } = await home.run([...words, '-a', ME]);
    expect(stderr).not.toContain('error:');
    expect(status).toBe(0);
    return stdout.trim();
  };

  /** Sends a message to a session, or to an agent in a new session. Returns the session. */
  const say = async (to: string, content: string): Promise<string> => {
    if (to.startsWith('@')) return me.mustCreate({ invite: [to], initial_message: { content } });
    await me.mustSend(to, content);
    return to;
  };

  const messagesOf = async (sessionId: string, after = 0): Promise<Envelope[]> =>
    ((await me.mustReplay(sessionId, after)) as Envelope[]).filter(({ type }) => type === 'session.message');

  /** Asks and waits for the answer to this question, which comes after all earlier ones in the session. */
  const ask = async (sessionId: string, text: string): Promise<string> => {
    const sent = await me.mustSend(sessionId, text);
    const answer = await until(
      `an answer to ${text}`,
      async () =>
        (await messagesOf(sessionId, sent.sequence)).find(
          ({ payload }) => payload.sender === BOT && payload.metadata?.in_reply_to === sent.id,
        ),
      60_000,
    );
    return answer.payload.content;
  };

  const fileText = (name: string): string => {
    const path = join(home.directory, name);
    return existsSync(path) ? readFileSync(path, 'utf8') : '';
  };

  it('joins, answers in order, and passes the event on stdin and the ids in the environment', async () => {
    const echo = script(
      'echo.sh',
      `node -p 'const event=JSON.parse(require("fs").readFileSync(0,"utf8"));event.payload.content+"|"+event.event_id' | sed "s/$/|$ASP_EVENT_ID|$ASP_ACTOR|$ASP_AGENT/"`,
    );
    const agent = await start(echo);
    const sid = await say(BOT, 'one');
    const answer = await ask(sid, '$(touch owned) `touch owned` "; touch owned; "');
    const [content, id, sameId, actor, me] = answer.split('|');
    expect(content).toBe('$(touch owned) `touch owned` "; touch owned; "');
    expect(id).toMatch(/^evt_/);
    expect([sameId, actor, me]).toEqual([id, ME, BOT]);
    expect(home.exists('owned')).toBe(false);
    const [first, second] = (await messagesOf(sid)).filter(({ payload }) => payload.sender === BOT);
    expect(first?.payload.content).toMatch(/^one\|/);
    expect(second?.payload.metadata?.in_reply_to).toMatch(/^msg_/);
    await agent.until('stdout', /(.*\n){2}/);
    expect(jsonLines<Told>(agent.stdout()).map(({ outcome }) => outcome)).toEqual(['replied', 'replied']);
  });

  it('six agents that ask in one session at once each get the answer to their own question', async () => {
    await start(script('answer.sh', `${SAID} | sed "s/^/to /"`));
    const first = json<{ session_id: string; message_id: string; reply: Envelope['payload'] }>(
      await asp('send', BOT, 'q0', '--wait', '--json'),
    );
    expect(first.reply).toMatchObject({ content: 'to q0', metadata: { in_reply_to: first.message_id } });
    const questions = ['q1', 'q2', 'q3', 'q4', 'q5', 'q6'];
    const answers = await Promise.all(questions.map((text) => asp('send', first.session_id, text, '--wait')));
    expect(answers).toEqual(questions.map((text) => `to ${text}`));
  });

  it.runIf(process.getuid?.() === 0)('works for a user without a name, as in a container', async () => {
    const credentials = json<{ client_id: string; client_secret: string }>(
      (await home.run(['serve', 'client', 'add', '@bob.bot', '--json'])).stdout,
    );
    const nameless = createHome({
      ASP_PROFILE: `http://127.0.0.1:${relay.port}/v1`,
      ASP_CLIENT_ID: credentials.client_id,
      ASP_CLIENT_SECRET: credentials.client_secret,
    });
    try {
      for (const path of [nameless.directory, join(nameless.directory, 'run')]) chownSync(path, 12_345, 12_345);
      const user = ['--reuid', '12345', '--regid', '12345', '--clear-groups'];
      const agent = nameless.spawn('setpriv', [
        ...user,
        'asp',
        'run',
        '--exec',
        'echo "I am $(id -u)"',
        '-c',
        '1',
        '--from',
        'anyone',
      ]);
      await agent.until('stderr', /Answering as @bob\.bot/);
      expect(await asp('send', '@bob.bot', 'who?', '--wait')).toBe('I am 12345');
      expect(await agent.ended).toMatchObject({ status: 0 });
      expect(agent.stderr()).not.toMatch(/is not known/);
    } finally {
      await nameless.dispose();
      rmSync('/tmp/asp-cli-locks-12345', { recursive: true, force: true });
    }
  });

  it('notifies the sender that the command failed, and does not answer such a notice from another agent', async () => {
    const begin = Date.now();
    const agent = await start('[ "$ASP_TRY" = 1 ] && exit 143; kill -9 $$', ['--tries', '2', '--from', 'bob.bot']);
    const other = home.start(['run', '-a', '@bob.bot', '--exec', 'touch answered', '--from', BOT]);
    agents.push(other);
    await other.until('stderr', /Answering as @bob\.bot/);
    const sid = (await home.run(['send', BOT, 'hello', '-a', '@bob.bot'])).stdout.trim();
    await agent.until('stdout', /\n/);
    await agent.until('stderr', /the command exited with 143 \(SIGTERM\); trying again/);
    await agent.until('stderr', /the command was killed by SIGKILL; the sender is notified/);
    const [told] = jsonLines<Told>(agent.stdout());
    expect(told).toMatchObject({ outcome: 'failed', exit_code: null, tries: 2, reply: { sequence: 4 }, code: null });
    expect(told?.created_at).toBeGreaterThanOrEqual(begin);
    expect(told?.at).toBeGreaterThanOrEqual((told?.created_at ?? 0) + 1000);
    expect(told?.duration_ms).toBeGreaterThanOrEqual(1000);
    await home.run(['send', sid, 'and now?', '-a', '@bob.bot']);
    await agent.until('stdout', /(.*\n){2}/);
    const events = jsonLines<Envelope>(
      (await home.run(['session', 'events', sid, '--after', '3', '--type', 'message', '-a', '@bob.bot'])).stdout,
    );
    expect(events.map(({ payload }) => [payload.sender, payload.content, payload.metadata])).toEqual([
      [BOT, 'Sorry, I could not process this message.', { in_reply_to: told?.message_id, failed: true }],
      ['@bob.bot', 'and now?', undefined],
      [BOT, 'Sorry, I could not process this message.', expect.objectContaining({ failed: true })],
    ]);
    expect([home.exists('answered'), other.stdout()]).toEqual([false, '']);
  });

  it.each([
    ['that does not exist', ['--exec', 'nosuchcmd', '--tries', '3'], 2, /cannot be run.*\n.*did not find the command/],
    ['that is not executable', ['--exec', './plain.txt'], 2, /cannot be run.*\n.*not executable/],
    [
      'that fails, with --on-failure stop',
      ['--exec', 'exit 3', '--on-failure', 'stop'],
      10,
      /exited with 3\. The message/,
    ],
  ])('a command %s ends the run and leaves its message to the next one', async (_, words, status, told) => {
    writeFileSync(join(home.directory, 'plain.txt'), 'hello\n');
    const agent = home.start(['run', '-a', BOT, '--from', ME, ...words]);
    agents.push(agent);
    await agent.until('stderr', /Answering as @alice\.bot/);
    const sid = await say(BOT, 'hello');
    expect(await agent.ended).toMatchObject({ status, stdout: '', stderr: expect.stringMatching(told) });
    await start('echo fine');
    expect(await ask(sid, 'again')).toBe('fine');
    await expectOneReplyEach(sid, ['hello', 'again']);
  });

  it('asp in the command acts as the same agent at the same service', async () => {
    const service = `http://127.0.0.1:${relay.port}/v1`;
    await start('echo "$ASP_TRY $(asp whoami --json --fields handle,base_url)"', ['-p', service]);
    await home.run(['config', 'set', 'default_profile', 'http://127.0.0.1:1/v1']);
    try {
      const reply = await asp('send', BOT, 'who?', '--wait', '-p', service);
      expect(reply).toMatch(/^1 \{.*@alice\.bot/);
    } finally {
      await home.run(['config', 'unset', 'default_profile']);
    }
  });

  it.each([
    ['asp ask', 'asp ask @bob.bot "which?" 2>/dev/null'],
    ['asp send --wait in its own session', 'asp send @bob.bot "which?" --wait 2>/dev/null'],
    [
      'asp reply --wait in the session of the message',
      'touch asked; asp reply "$ASP_SESSION_ID" "which?" --wait 2>/dev/null',
    ],
    ['asp ask, whose answer names no question,', 'asp ask @bob.bot "which?" 2>/dev/null'],
  ])(
    'the answer that %s in the command waits for is not a new message, also not to the next run',
    async (what, ask_) => {
      const isOwnSession = what.includes('reply');
      if (!isOwnSession) {
        const unnamed = 'asp send "$ASP_SESSION_ID" "the red one" >/dev/null 2>&1';
        const command = what.includes('names no') ? unnamed : 'echo "the red one"';
        const other = home.start(['run', '-a', '@bob.bot', '--exec', command, '--from', 'anyone']);
        agents.push(other);
        await other.until('stderr', /Answering as @bob\.bot/);
      }
      const log = join(home.directory, `heard-${agents.length}-${Date.now()}.txt`);
      const cursor = `${log}.json`;
      const words = ['--from', 'anyone', '--cursor-file', cursor];
      const asking = `${SAID} >> ${log}; ${ask_}`;
      const agent = await start(asking, words);
      const sid = await say(BOT, 'paint it');
      if (isOwnSession) {
        await until('the question', async () => (await messagesOf(sid)).length === 2);
        await me.mustSend(sid, 'the red one');
      }
      await agent.until('stdout', /"replied"/);
      agent.kill('SIGKILL');
      await agent.ended;
      const next = await start(asking.replace(ask_, 'echo ok'), words);
      expect(await ask(sid, 'last')).toBe('ok');
      expect(readFileSync(log, 'utf8')).toBe('paint it\nlast\n');
      const answers = (await messagesOf(sid)).filter(({ payload }) => payload.content === 'the red one');
      expect(answers).toHaveLength(isOwnSession ? 2 : 1);
      next.kill('SIGINT');
      await next.ended;
    },
  );

  it('what a command sends continues the chain: two agents whose commands write to each other stop', async () => {
    const chain = ['--max-hops', '4', '--from', 'anyone', '--max-replies', '0'];
    const one = await start('asp send @bob.bot more >/dev/null 2>&1', chain);
    const other = home.start(['run', '-a', '@bob.bot', '--exec', `asp send ${BOT} more >/dev/null 2>&1`, ...chain]);
    agents.push(other);
    await other.until('stderr', /Answering as @bob\.bot/);
    await say(BOT, 'more');
    await one.until('stdout', /"max_hops"/);
    // The command that sent the last message may still be ending.
    await other.until('stdout', /"silent"[\s\S]*"silent"/);
    // It may also report messages of earlier tests that already have their answers.
    const outcomes = [one, other].map((agent) =>
      jsonLines<Told>(agent.stdout()).flatMap(({ outcome }) => (outcome === 'answered' ? [] : [outcome])),
    );
    expect(outcomes).toEqual([
      ['silent', 'silent', 'limited'],
      ['silent', 'silent'],
    ]);
  });

  it('reports that it does not answer with the next message, if the service was down for the first', async () => {
    let isDown = true;
    const statuses: number[] = [];
    relay.onRequest = async (relayed) => {
      if (!relayed.path.endsWith('/unanswered')) return (await relayed.forward())();
      statuses.push(isDown ? 503 : 204);
      if (isDown) return relayed.answer(503, {}, { error: { code: 'INTERNAL_ERROR', message: 'down' } });
      return (await relayed.forward())();
    };
    const agent = await start('false', ['--tries', '1']);
    const sid = await me.mustCreate({ invite: [BOT] });
    await say(sid, 'one');
    await agent.until('stdout', /"outcome":"failed"/);
    expect(statuses).toContain(503);
    isDown = false;
    await say(sid, 'two');
    await until('it has reported', async () => statuses.at(-1) === 204);
  });

  it('runs many commands at once; with --json their errors are lines of JSON that name the event', async () => {
    const words = [
      '--exec',
      'echo "no luck" >&2; sleep 1',
      '--concurrency',
      '16',
      '--json',
      '-c',
      '14',
      '--from',
      'anyone',
    ];
    const agent = home.start(['run', '-a', BOT, ...words]);
    agents.push(agent);
    await agent.until('stderr', /Answering as @alice\.bot/);
    await Promise.all(Array.from({ length: 14 }, () => say(BOT, 'hi')));
    expect(await agent.ended).toMatchObject({ status: 0 });
    const lines = jsonLines<{ note?: string; event_id?: string; stderr?: string }>(agent.stderr());
    const errors = lines.filter(({ stderr }) => stderr === 'no luck').map(({ event_id }) => event_id);
    expect(new Set(errors).size).toBe(14);
    expect(lines).toHaveLength(15);
  });

  it('with --json, errors without line feeds become several lines and do not fill the memory', async () => {
    const endless = `head -c 20000000 /dev/zero | tr '\\0' x >&2; printf 'one\\rtwo\\r\\nthree' >&2`;
    const agent = home.start(['run', '-a', BOT, '--exec', endless, '--json', '-c', '1', '--from', ME]);
    agents.push(agent);
    await agent.until('stderr', /Answering as @alice\.bot/);
    await say(BOT, 'hi');
    expect(await agent.ended).toMatchObject({ status: 0 });
    const lines = jsonLines<{ stderr?: string }>(agent.stderr()).flatMap(({ stderr }) => stderr ?? []);
    expect(lines.slice(-2)).toEqual(['two', 'three']);
    expect(lines.join('').length).toBe(20_000_000 + 'onetwothree'.length);
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThan(200_000);
  });

  it('tail --idle counts from when the backlog was printed, no matter how slowly it arrives', async () => {
    const sid = await say(BOT, 'waiting');
    const cursors = join(home.directory, 'inbox.json');
    writeFileSync(cursors, JSON.stringify({ sessions: { [sid]: 0 } }));
    relay.onRequest = async ({ path, forward }) => {
      if (path.includes('/events')) await setTimeout(1_500);
      await (await forward())();
    };
    const out = await asp('tail', '--cursor-file', cursors, '--type', 'message', '--idle', '300ms');
    expect(jsonLines<Envelope>(out).map(({ payload }) => payload.content)).toContain('waiting');
    await me.mustEnd(sid);
  });

  it('a one-shot message is handled too, but its reply cannot be sent', async () => {
    const agent = await start(script('note.sh', `${SAID} >> heard.txt; echo thanks`));
    await asp('send', BOT, 'deployed', '--end');
    await agent.until('stdout', /\n/);
    expect(fileText('heard.txt')).toBe('deployed\n');
    expect(jsonLines(agent.stdout())[0]).toMatchObject({ outcome: 'refused', code: 'NOT_FOUND', sequence: 2 });
  });

  it('sends nothing if the command prints nothing, or fails with --on-failure skip; --tries runs it again', async () => {
    const moody = script(
      'moody.sh',
      `case "$(${SAID})" in
        quiet) echo ;;
        broken) echo half; exit 3 ;;
        later) [ -e later ] && echo at last || { touch later; exit 75; } ;;
        large) head -c 300000 /dev/zero ;;
        binary) printf '\\377' ;;
        *) echo fine ;;
      esac`,
    );
    const agent = await start(moody, ['--tries', '2', '--on-failure', 'skip']);
    const sid = await say(BOT, 'quiet');
    for (const text of ['broken', 'large', 'binary', 'later']) await say(sid, text);
    expect(await ask(sid, 'well?')).toBe('fine');
    await agent.until('stdout', /(.*\n){6}/);
    const told = jsonLines<Told>(agent.stdout()).map(({ outcome, exit_code, tries }) => [outcome, exit_code, tries]);
    expect(told.slice(0, 2)).toEqual([
      ['silent', 0, 1],
      ['failed', 3, 2],
    ]);
    expect(told.slice(2).map(([outcome, , tries]) => [outcome, tries])).toEqual([
      ['failed', 2],
      ['failed', 2],
      ['replied', 2],
      ['replied', 1],
    ]);
    await agent.until('stderr', /exited with 3; no reply was sent/);
    const replies = (await messagesOf(sid)).filter(({ payload }) => payload.sender === BOT);
    expect(replies.map(({ payload }) => payload.content)).toEqual(['at last', 'fine']);
  });

  it('sessions do not wait for each other; --command-timeout ends a hanging command and its children', async () => {
    const slow = script('slow.sh', `case "$(${SAID})" in hang) sleep 1000 | cat ;; *) echo quick ;; esac`);
    const agent = await start(slow, ['--command-timeout', '10s']);
    const hanging = await say(BOT, 'hang');
    const other = await say(BOT, 'first');
    expect(await ask(other, 'second')).toBe('quick');
    expect(await ask(hanging, 'and now?')).toBe('quick');
    await agent.until('stderr', /took longer than 10 s/);
  });

  it('a command is over when it exits, and what a process that it started prints after that is lost', async () => {
    const leaving = script(
      'leaving.sh',
      `case "$(${SAID})" in
        ok) echo so far; setsid sh -c 'sleep 8; echo late; touch outlived' & ;;
        busy) setsid sh -c 'while [ -d "$HOME" ]; do echo more; sleep 0.1; done' >&2 & echo so far ;;
        flood) echo so far; setsid yes & ;;
        hang) setsid sleep 20 & sleep 600 ;;
        *) echo quick ;;
      esac`,
    );
    const agent = await start(leaving, ['--json', '--command-timeout', '4s', '--on-failure', 'skip']);
    const texts = ['ok', 'busy', 'flood', 'hang', 'well?'];
    const sid = await me.mustCreate({ invite: [BOT] });
    for (const text of texts) await me.mustSend(sid, text);
    await agent.until('stdout', /(.*\n){5}/);
    const told = jsonLines<Told>(agent.stdout());
    expect(told.map(({ outcome }) => outcome)).toEqual(['replied', 'replied', 'failed', 'failed', 'replied']);
    for (const { duration_ms } of told) expect(duration_ms).toBeLessThan(8_000);
    const replies = (await messagesOf(sid)).filter(({ payload }) => payload.sender === BOT);
    expect(replies.map(({ payload }) => payload.content)).toEqual(['so far', 'so far', 'quick']);
    await agent.until('stderr', /printed more than 256 KiB/);
    await agent.until('stderr', /took longer than 4 s/);
    await agent.until('stderr', /keeps its output open\. Everything that process prints from now on is lost/);
    // Printing ends it, as writing to any closed pipe does.
    await setTimeout(8_500 - (told[0]?.duration_ms ?? 0));
    expect(home.exists('outlived')).toBe(false);
  });

  it('--from: others are neither joined nor answered; --end ends after the reply; -c stops', async () => {
    const agent = await start('echo yes', ['--from', 'demo.you', '--end', '-c', '1']);
    const bobs = (await home.run(['send', BOT, 'me?', '-a', '@bob.bot'])).stdout.trim();
    const sid = await say(BOT, 'and me?');
    expect(await agent.ended).toMatchObject({ status: 0 });
    expect(json(await asp('session', 'show', sid, '--json'))).toMatchObject({ state: 'ended' });
    const show = await home.run(['session', 'show', bobs, '--json', '-a', '@bob.bot']);
    expect(json<{ participants: unknown[] }>(show.stdout).participants).toContainEqual(
      expect.objectContaining({ handle: BOT, status: 'invited' }),
    );
    await home.run(['session', 'end', bobs, '-a', '@bob.bot']);
  });

  it('runs its command only for the same owner and the allowlist, unless --from anyone', async () => {
    const seeded = ['--policy', 'open', '@alice.other'];
    await home.run(['serve', 'agent', 'add', ...seeded]);
    await home.run(['login', '@alice.other', '--yes']);
    const agent = home.start(['run', '-a', BOT, '--exec', 'echo hello', '--ready-file', 'open-bot']);
    agents.push(agent);
    await agent.until(
      'stderr',
      /Answering as @alice\.bot\. Answering only agents of the same owner and those on its allowlist/,
    );
    expect((await home.run(['send', BOT, 'hi', '--wait', '-a', '@alice.other'])).stdout).toBe('hello\n');
    const ofStranger = (await home.run(['send', BOT, 'hi', '-a', '@bob.bot'])).stdout.trim();
    await agent.until('stderr', /Not answering @bob\.bot: it has a different owner/);
    await home.run(['allowlist', 'add', '@demo.*', '-a', BOT]);
    agent.kill('SIGINT');
    expect(await agent.ended).toMatchObject({ status: 0 });
    const next = home.start(['run', '-a', BOT, '--exec', 'echo hello']);
    agents.push(next);
    await next.until('stderr', /Answering as/);
    expect(await asp('send', BOT, 'hi', '--wait')).toBe('hello');
    await home.run(['allowlist', 'remove', '@demo.*', '-a', BOT]);
    const show = await home.run(['session', 'show', ofStranger, '--json', '-a', '@bob.bot']);
    expect(json<{ participants: unknown[] }>(show.stdout).participants).toContainEqual(
      expect.objectContaining({ handle: BOT, status: 'invited' }),
    );
    await home.run(['session', 'end', ofStranger, '-a', '@bob.bot']);
  });

  it('Ctrl-C lets a running command finish, says so, and sends its reply; what came in the meantime is answered by the next run', async () => {
    const gate = script(
      'gate.sh',
      `text=$(${SAID}); touch begun; [ "$text" != wait ] || until [ -e gate ] || [ ! -d "$HOME" ]; do sleep 0.05; done; echo "$text!"`,
    );
    const agent = await start(gate);
    const sid = await say(BOT, 'wait');
    await until('the command begins', async () => home.exists('begun'));
    await say(sid, 'later');
    agent.kill('SIGINT');
    await agent.until('stderr', /Waiting up to 10s for 1 message in progress\. A second Ctrl-C ends the run now\./);
    writeFileSync(join(home.directory, 'gate'), '');
    expect(await agent.ended).toMatchObject({ status: 0, signal: null });
    await asp('send', BOT, 'while down', '--end');
    expect((await messagesOf(sid)).map(({ payload }) => payload.content)).toEqual(['wait', 'later', 'wait!']);
    const next = await start(gate);
    await next.until('stdout', /(.*\n){2}/);
    expect((await messagesOf(sid)).map(({ payload }) => payload.content)).toEqual(['wait', 'later', 'wait!', 'later!']);
    expect(
      jsonLines<Told>(next.stdout())
        .map(({ outcome }) => outcome)
        .sort(),
    ).toEqual(['refused', 'replied']);
  });

  it('lost progress is reported, and --since answers what has no reply yet, as in a container without a volume', async () => {
    const lost = (name: string) => ['--cursor-file', join(home.directory, name)];
    const begin = String(Date.now());
    const first = await start('echo one', lost('first.json'));
    const sent = await asp('send', BOT, 'answered', '--wait', '--json');
    const { session_id: id } = json<{ session_id: string }>(sent);
    first.kill('SIGINT');
    await first.ended;
    await say(id, 'while it was away');
    // The service reports times in whole seconds.
    await setTimeout(1100);
    const second = await start('echo two', lost('second.json'));
    expect(second.stderr()).toMatch(
      /No progress of an earlier run was found, so the agent starts now\. To also answer earlier messages, add --since/,
    );
    second.kill('SIGINT');
    await second.ended;
    const third = await start('echo three', [...lost('third.json'), '--since', begin]);
    await third.until('stdout', /"replied"/);
    expect(third.stderr()).not.toMatch(/Nothing is saved/);
    await expectOneReplyEach(id, ['answered', 'while it was away']);
    await me.mustEnd(id);
  });

  it('a first run reads no session in which nothing has happened since it started', async () => {
    const ids: string[] = [];
    for (let count = 0; count < 12; count += 1) ids.push(await say(BOT, `before it starts ${count}`));
    const keptIn = (name: string) => ['--cursor-file', join(home.directory, name)];
    const joining = await start('echo done', keptIn('joining.json'));
    await joining.until('stdout', /(.*\n){12}/);
    joining.kill('SIGINT');
    await joining.ended;
    // The service reports times in whole seconds.
    await setTimeout(1100);
    const mine = `Bearer ${await me.token()}`;
    const asked: string[] = [];
    relay.onRequest = async (relayed) => {
      if (relayed.headers.authorization !== mine) asked.push(relayed.path);
      await (await relayed.forward())();
    };
    const agent = await start('echo fine', keptIn('starting.json'));
    await say(ids[3] ?? '', 'news');
    await agent.until('stdout', /"replied"/);
    const read = new Set(ids.filter((id) => asked.some((path) => path.includes(`${id}/events`))));
    // One request finds out the epoch of the data.
    expect(read.size).toBeLessThanOrEqual(2);
    await expectOneReplyEach(ids[3] ?? '', ['before it starts 3', 'news']);
    for (const id of ids) await me.mustEnd(id);
  });

  it('a restart requests only the sessions with new events', async () => {
    const agent = await start('echo fine');
    const ids: string[] = [];
    for (let count = 0; count < 12; count += 1) ids.push(await say(BOT, `hello ${count}`));
    await until('all are answered', async () => ids.every((id) => agent.stdout().includes(id)));
    agent.kill('SIGINT');
    await agent.ended;
    await say(ids[3] ?? '', 'news');
    const mine = `Bearer ${await me.token()}`;
    const asked: string[] = [];
    relay.onRequest = async (relayed) => {
      if (relayed.headers.authorization !== mine) asked.push(relayed.path);
      await (await relayed.forward())();
    };
    const next = await start('echo fine');
    await next.until('stdout', /\n/);
    const replayed = ids.filter((id) => asked.some((path) => path.includes(`${id}/events`)));
    expect(replayed).toContain(ids[3]);
    // For the last few messages, the agent may have been stopped before it saw its own reply.
    expect(replayed.length).toBeLessThan(6);
    for (const id of ids) await me.mustEnd(id);
  });

  it('Ctrl-C while a reply cannot be sent: it is left for the next run', async () => {
    const agent = await start('cat >/dev/null; echo $$');
    const mine = `Bearer ${await me.token()}`;
    let dropped = 0;
    relay.onRequest = async (relayed) => {
      if (relayed.headers.authorization === mine || !relayed.path.endsWith('/messages'))
        return (await relayed.forward())();
      dropped += 1;
      relayed.drop();
    };
    const sid = await say(BOT, 'hello');
    await until('a reply is tried', async () => dropped > 0);
    agent.kill('SIGINT');
    expect(await agent.ended).toMatchObject({ status: 0, signal: null, stdout: '' });
    await agent.until('stderr', /left for the next run/);
    relay.onRequest = undefined;
    await start('cat >/dev/null; echo $$');
    await ask(sid, 'still?');
    await expectOneReplyEach(sid, ['hello', 'still?']);
  });

  it('continues after an outage of the service, and says when it began and ended', async () => {
    const agent = await start('echo here');
    const sid = await say(BOT, 'hello');
    await agent.until('stdout', /replied/);
    service.running.kill('SIGKILL');
    await service.running.ended;
    await agent.until('stderr', /Cannot connect to the service \([\w ]+\)\. Retrying until it works\.\n/);
    service = await serve();
    await agent.until('stderr', /Connected again after \d+ s\.\n/);
    expect(await ask(sid, 'still?')).toBe('here');
    expect(agent.stderr().match(/Cannot connect/g)).toHaveLength(1);
  });

  /** Kills the agent around a request: before the service gets it, before its answer arrives, right after that. */
  type Point = (kill: () => void) => (relayed: Relayed) => Promise<void>;
  const killBefore =
    (path: RegExp): Point =>
    (kill) =>
    async (relayed) => {
      if (path.test(relayed.path)) return kill();
      await (await relayed.forward())();
    };
  const killDuring =
    (path: RegExp): Point =>
    (kill) =>
    async (relayed) => {
      const pass = await relayed.forward();
      if (path.test(relayed.path)) return kill();
      await pass();
    };
  const killAfter =
    (path: RegExp): Point =>
    (kill) =>
    async (relayed) => {
      await (await relayed.forward())();
      if (path.test(relayed.path)) kill();
    };

  /** The points at which a `kill -9` may interrupt an answer, from the invitation to the printed line. */
  const POINTS: Record<string, Point> = {
    'while it joins': killDuring(/\/join$/),
    'between the output and the request': killBefore(/\/messages$/),
    'between the service and the answer': killDuring(/\/messages$/),
    'right after the answer': killAfter(/\/messages$/),
  };

  /** Expects one reply to every message, in order. */
  const expectOneReplyEach = async (sessionId: string, texts: readonly string[]): Promise<void> => {
    const messages = await messagesOf(sessionId);
    const asked = messages.filter(({ payload }) => payload.sender === ME && payload.content !== 'before');
    const replies = messages.filter(({ payload }) => payload.sender === BOT);
    expect(asked.map(({ payload }) => payload.content)).toEqual(texts);
    expect(replies.map(({ payload }) => payload.metadata?.in_reply_to)).toEqual(asked.map(({ payload }) => payload.id));
  };

  const TEXTS = ['a', 'b', 'c'];

  /** Sends messages while a run is killed at a point, and one more to the next run. Returns the session. */
  const killAndContinue = async (
    hookOf: (typeof POINTS)[keyof typeof POINTS],
    command: string,
    words: readonly string[] = [],
  ): Promise<string> => {
    const agent = await start(command, [...words]);
    const sid = await say('@bob.bot', 'before');
    const mine = `Bearer ${await me.token()}`;
    const hook = hookOf(() => agent.kill('SIGKILL'));
    relay.onRequest = async (relayed) => {
      if (relayed.headers.authorization !== mine) return hook(relayed);
      await (await relayed.forward())();
    };
    await me.mustInvite(sid, BOT);
    for (const text of TEXTS) await say(sid, text);
    expect(await agent.ended).toMatchObject({ signal: 'SIGKILL' });
    relay.onRequest = undefined;
    await start(command, [...words]);
    await ask(sid, 'last');
    return sid;
  };

  for (const [name, hookOf] of Object.entries(POINTS))
    it(`kill -9 ${name}: nothing is answered twice and nothing is lost`, async () => {
      const random = script('random.sh', 'cat >/dev/null; echo $RANDOM$RANDOM');
      await expectOneReplyEach(await killAndContinue(hookOf, random), [...TEXTS, 'last']);
    });

  const answering = `import json, sys, time
for line in sys.stdin:
    event = json.loads(line)
    reply = {"content": str(time.time()), "files": ["report.txt"]}
    if "--lines" in sys.argv:
        reply["event_id"] = event["event_id"]
    print(json.dumps(reply), flush=True)
`;
  it.each([
    ['--lines', 'before the upload', killBefore(/\/attachments$/)],
    ['--lines', 'between the upload and its answer', killDuring(/\/attachments$/)],
    ['--lines', 'between the upload and the reply', killAfter(/\/attachments$/)],
    ['--lines', 'between the reply and its answer', killDuring(/\/messages$/)],
    ['--reply-json', 'between the upload and its answer', killDuring(/\/attachments$/)],
    ['--reply-json', 'between the upload and the reply', killBefore(/\/messages$/)],
  ])('%s: kill -9 %s: one reply, and its file is stored once', async (mode, _when, point) => {
    writeFileSync(join(home.directory, 'answer.py'), answering);
    writeFileSync(join(home.directory, 'report.txt'), 'all is well');
    const command = `python3 answer.py ${mode}`;
    const stored = (): number =>
      readdirSync(join(service.data, 'attachments'), { recursive: true, withFileTypes: true }).filter((entry) =>
        entry.isFile(),
      ).length;
    const earlier = stored();
    const sid = await killAndContinue(point, command, [mode]);
    await expectOneReplyEach(sid, [...TEXTS, 'last']);
    const replies = (await messagesOf(sid)).filter(({ payload }) => payload.sender === BOT);
    for (const { payload } of replies)
      expect(payload.content).toMatchObject([{}, { type: 'file', name: 'report.txt' }]);
    expect(stored() - earlier).toBe(replies.length);
  });

  it.each([
    ['max_replies', ['--max-replies', '2']],
    ['repeated', []],
  ])(
    'kill -9 between a reply and its count: the next run counts it for %s',
    {
      timeout: 120_000,
    },
    async (limit, words) => {
      const agent = await start('echo fine', words);
      const sid = await say('@bob.bot', 'before');
      const mine = `Bearer ${await me.token()}`;
      const hook = POINTS['between the service and the answer']?.(() => agent.kill('SIGKILL'));
      relay.onRequest = async (relayed) => {
        if (relayed.headers.authorization !== mine) return hook?.(relayed);
        await (await relayed.forward())();
      };
      await me.mustInvite(sid, BOT);
      await me.mustSend(sid, 'one', { hops: 1 });
      expect(await agent.ended).toMatchObject({ signal: 'SIGKILL' });
      relay.onRequest = undefined;
      const next = await start('echo fine', words);
      for (const text of ['two', 'three']) await me.mustSend(sid, text, { hops: 1 });
      await next.until('stdout', new RegExp(`"${limit}"`));
      expect((await messagesOf(sid)).filter(({ payload }) => payload.sender === BOT)).toHaveLength(2);
    },
  );

  it('kill -9 while the command runs: the next run runs it again, with the next number in ASP_TRY', async () => {
    const blocking = script(
      'blocking.sh',
      'cat >/dev/null; echo "$ASP_TRY" >> runs; until [ -e open ] || [ ! -d "$HOME" ]; do sleep 0.05; done; echo done',
    );
    const agent = await start(blocking);
    const sid = await say(BOT, 'one');
    await until('the command begins', async () => fileText('runs') !== '');
    const exit = once(agent.child, 'exit');
    agent.kill('SIGKILL');
    await exit;
    writeFileSync(join(home.directory, 'open'), '');
    await start(blocking);
    await ask(sid, 'two');
    await expectOneReplyEach(sid, ['one', 'two']);
    expect(fileText('runs')).toBe('1\n2\n1\n');
  });

  it('kill -9 ends the command too, even one that ignores SIGTERM, before the next run runs it again', async () => {
    const stubborn = script(
      'stubborn.sh',
      `cat >/dev/null
      [ -e pid ] && grep -q '^State:.[RSD]' "/proc/$(cat pid)/status" 2>/dev/null && touch overlap
      echo $$ > pid
      [ -e go ] && { echo done; exit; }
      trap '' TERM
      touch blocked
      while [ -d "$HOME" ]; do sleep 0.1; done`,
    );
    const agent = await start(stubborn);
    const sid = await say(BOT, 'one');
    await until('the command begins', async () => home.exists('blocked'));
    const pid = Number(fileText('pid'));
    writeFileSync(join(home.directory, 'go'), '');
    const exit = once(agent.child, 'exit');
    agent.kill('SIGKILL');
    await exit;
    await start(stubborn);
    await ask(sid, 'two');
    await expectOneReplyEach(sid, ['one', 'two']);
    expect(home.exists('overlap')).toBe(false);
    await until('the command is gone', async () => !isRunning(pid));
  });

  it.each(['--exec', '--acp'])('kill -9 right after the start of a command: %s never runs it', async (option) => {
    const hook = script('kill-at-start.cjs', '');
    writeFileSync(
      hook,
      `const child = require('node:child_process');
      const { spawn } = child;
      child.spawn = (...given) => {
        const started = spawn(...given);
        if (JSON.stringify(given).includes('touch began')) {
          require('node:fs').writeFileSync('process-id', String(started.pid));
          process.kill(process.pid, 'SIGKILL');
        }
        return started;
      };
      require('node:module').syncBuiltinESMExports();`,
    );
    const agent = home.start(['run', '-a', BOT, '--from', ME, option, 'touch began; exec sleep 600'], {
      environment: { NODE_OPTIONS: `--require ${hook}` },
    });
    agents.push(agent);
    // An agent program starts before the first message.
    if (option === '--exec') await agent.until('stderr', /Answering as @alice\.bot/);
    const sid = await say(BOT, 'one');
    expect(await agent.ended).toMatchObject({ signal: 'SIGKILL' });
    await until('the command is gone', async () => !isRunning(Number(fileText('process-id'))));
    expect(home.exists('began')).toBe(false);
    await start('echo fine');
    await ask(sid, 'two');
    await expectOneReplyEach(sid, ['one', 'two']);
  });

  it('--grace: the reply of a command that finishes in time is sent; --ready-file exists while the agent answers', async () => {
    const ready = join(home.directory, 'ready.json');
    const slow = 'cat >/dev/null; touch started; sleep 2; echo slow';
    const agent = await start(slow, ['--grace', '1s', '--ready-file', ready]);
    expect(json(readFileSync(ready, 'utf8'))).toEqual({ pid: agent.pid, ready_at: expect.any(Number) });
    const sid = await say(BOT, 'hello');
    await until('the command begins', async () => home.exists('started'));
    agent.kill('SIGTERM');
    expect(await agent.ended).toMatchObject({
      status: 0,
      stdout: '',
      stderr: expect.stringMatching(/left for the next run/),
    });
    expect(existsSync(ready)).toBe(false);
    rmSync(join(home.directory, 'started'));
    const next = await start(slow, ['--grace', '30s']);
    await until('the command begins', async () => home.exists('started'));
    next.kill('SIGTERM');
    expect(await next.ended).toMatchObject({ status: 0 });
    expect(next.stdout()).toMatch(/"replied"/);
    await expectOneReplyEach(sid, ['hello']);
  });

  it('waits for a service that is down at startup, and says so once', async () => {
    const { targetPort } = relay;
    const client = json<{ client_id: string; client_secret: string }>(
      (await home.run(['serve', 'client', 'add', BOT, '--json'])).stdout,
    );
    const environment = {
      ASP_PROFILE: `http://127.0.0.1:${relay.port}/v1`,
      ASP_CLIENT_ID: client.client_id,
      ASP_CLIENT_SECRET: client.client_secret,
    };
    relay.targetPort = 1;
    try {
      const agent = home.start(['run', '--exec', 'echo here', '-c', '1', '--retries', '1', '--from', 'anyone'], {
        environment,
      });
      agents.push(agent);
      await agent.until('stderr', /Cannot connect to the service/);
      relay.targetPort = targetPort;
      await agent.until('stderr', /Answering as @alice\.bot/);
      expect(agent.stderr().match(/Cannot connect/g)).toHaveLength(1);
      expect(await asp('send', BOT, 'hello', '--wait')).toBe('here');
      expect(await agent.ended).toMatchObject({ status: 0 });
    } finally {
      relay.targetPort = targetPort;
    }
  });

  it('waits for a local service that was killed, and says so once', async () => {
    service.running.kill('SIGKILL');
    await service.running.ended;
    const agent = home.start(['run', '-a', BOT, '--exec', 'echo here', '--from', ME]);
    agents.push(agent);
    await agent.until('stderr', /The local service is not running: it ended unexpectedly\. Waiting until it runs\./);
    service = await serve();
    await agent.until('stderr', /Answering as @alice\.bot/);
    expect(agent.stderr().match(/Waiting until/g)).toHaveLength(1);
    expect(await ask(await say(BOT, 'hello'), 'still?')).toBe('here');
  });

  it('kill -9 right after each message arrives: one reply each', async () => {
    const sid = await asp('session', 'create', BOT);
    for (let number = 0; number < 8; number += 1) await say(sid, String(number));
    for (const round of ['8', '9', '10', '11']) {
      // On a busy machine, an agent may answer everything before it is killed.
      await say(sid, round);
      const agent = await start('cat >/dev/null; echo $$');
      await agent.until('stdout', /"outcome"/);
      agent.kill('SIGKILL');
      await agent.ended;
    }
    await start('cat >/dev/null; echo $$');
    await ask(sid, 'last');
    await expectOneReplyEach(sid, ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '10', '11', 'last']);
  });

  it('does not answer twice after a key has expired: the reply itself names the message it answers', async () => {
    const cursor = join(home.directory, 'old-cursor.json');
    const words = ['--cursor-file', cursor];
    const first = await start('cat >/dev/null; echo $$', words);
    const before = readFileSync(cursor, 'utf8');
    const sid = await say(BOT, 'hello');
    await first.until('stdout', /"replied"/);
    first.kill('SIGINT');
    await first.ended;
    writeFileSync(cursor, before);
    const posts: string[] = [];
    relay.onRequest = async (relayed) => {
      if (relayed.method === 'POST') posts.push(relayed.path);
      await (await relayed.forward())();
    };
    const second = await start('cat >/dev/null; echo $$', words);
    await second.until('stdout', /"answered"/);
    expect(posts.filter((path) => path.endsWith('/messages'))).toEqual([]);
    await expectOneReplyEach(sid, ['hello']);
  });

  it('a second run of one agent ends at once, unless it has its own progress file', async () => {
    const first = await start('echo first', ['--from', 'demo.you']);
    const second = await home.asp(['run', '-a', BOT, '--exec', 'echo second', '--json']);
    expect(second).toMatchObject({ status: 6, stdout: '' });
    expect(json(second.stderr)).toMatchObject({
      error: { code: 'ASP_ALREADY_RUNNING', message: `Another asp run or asp mock already answers as ${BOT}.` },
    });
    const other = await start('echo other', ['--from', 'bob.bot', '--cursor-file', 'other.json']);
    const beside = await home.asp(['run', '-a', BOT, '--exec', 'true', '--cursor-file', './other.json']);
    expect(beside.status).toBe(6);
    expect(await ask(await say(BOT, 'hi'), 'who?')).toBe('first');
    expect(other.stdout()).toBe('');
    first.kill('SIGKILL');
    await first.ended;
    await start('echo third');
  });

  it('without --shared, runs on two machines both run the command, and the sender gets one reply to each message', async () => {
    const other = join(home.directory, 'other-machine');
    for (const folder of [other, join(other, 'run')]) mkdirSync(folder, { mode: 0o700 });
    const client = await home.run(['serve', 'client', 'add', BOT]);
    const { client_id, client_secret } = json<Record<string, string>>(client.stdout);
    const environment = {
      ...{ HOME: other, XDG_RUNTIME_DIR: join(other, 'run'), ASP_PROFILE: `http://127.0.0.1:${relay.port}/v1` },
      ...{ ASP_CLIENT_ID: client_id, ASP_CLIENT_SECRET: client_secret },
    };
    const command = script('twice.sh', 'cat >/dev/null; echo $RANDOM$RANDOM');
    const first = await start(command);
    const second = home.start(['run', '--exec', command, '--from', ME], { environment });
    agents.push(second);
    await second.until('stderr', /Answering as @alice\.bot/);
    const sid = await say('@bob.bot', 'before');
    await me.mustInvite(sid, BOT);
    for (const text of TEXTS) await say(sid, text);
    // A run that has just started also reports earlier messages of the same second, in other sessions.
    const outcomesOf = (one: Running): string[] =>
      jsonLines<Told & { session_id: string }>(one.stdout().replace(/[^\n]*$/, ''))
        .filter(({ session_id: id }) => id === sid)
        .map(({ outcome }) => outcome);
    for (const one of [first, second])
      await until('all are reported', async () => outcomesOf(one).length === TEXTS.length);
    await expectOneReplyEach(sid, TEXTS);
    const outcomes = [first, second].map(outcomesOf);
    for (const index of TEXTS.keys()) expect(outcomes.map((of) => of[index]).sort()).toEqual(['answered', 'replied']);
  });

  it('ignores messages from before its first run; invalid options are exit 2', async () => {
    const cursor = join(home.directory, 'fresh.json');
    // The service tells its time in whole seconds.
    await setTimeout(1_100);
    await start('echo no', ['-c', '1', '--cursor-file', cursor]);
    expect(Object.keys(json<{ sessions: object }>(fileText('fresh.json')).sessions)).toEqual(expect.any(Array));
    expect(await home.asp(['run', '-a', BOT])).toMatchObject({ status: 2 });
    const broken = join(home.directory, 'broken.json');
    writeFileSync(broken, '[1]');
    expect(await home.asp(['run', '-a', BOT, '--exec', 'true', '--cursor-file', broken])).toMatchObject({ status: 2 });
    expect(await home.asp(['run', '-a', BOT, '--exec', 'true', '--timeout', '1ms'])).toMatchObject({ status: 8 });
  });
});
