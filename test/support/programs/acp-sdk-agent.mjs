// An agent program on the official SDK of the Agent Client Protocol, with a script instead of a model. Like coding
// agents, it keeps its sessions in a file. It also records every prompt there, so that tests can read what a model
// would see.
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { Readable, Writable } from 'node:stream';

import { agent, methods, ndJsonStream, PROTOCOL_VERSION, RequestError } from '@agentclientprotocol/sdk/unstable';

const [, , logFile, openMs = '0', close] = process.argv;
if (close === 'lingers') process.on('SIGTERM', () => setTimeout(() => process.exit(), 1_000));
const note = (entry) => appendFileSync(logFile, `${JSON.stringify({ pid: process.pid, at: Date.now(), ...entry })}\n`);
const entries = () =>
  existsSync(logFile)
    ? readFileSync(logFile, 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
    : [];
const open = new Set();
/** Sessions whose process is gone: some programs answer every further turn with an error. */
const broken = new Set();
/** Some programs start another one for each session. */
const takeTime = () => new Promise((resolve) => setTimeout(resolve, Number(openMs)));
let opened = entries().filter(({ what }) => what === 'new').length;

const say = (client, sessionId, text) =>
  client.notify(methods.client.session.update, {
    sessionId,
    update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } },
  });

/** Returns the message between the frame's lines. */
const said = (prompt) =>
  /begin untrusted message[^\n]*\n([\s\S]*)\n=== \S+ end untrusted message ===$/.exec(prompt)?.[1] ?? '';

async function usePermission(client, sessionId, kind) {
  const toolCallId = `call-${kind}`;
  await say(client, sessionId, 'Let me see. ');
  await client.notify(methods.client.session.update, {
    sessionId,
    update: { sessionUpdate: 'tool_call', toolCallId, title: `do ${kind}`, kind, status: 'pending' },
  });
  const { outcome } = await client.request(methods.client.session.requestPermission, {
    sessionId,
    toolCall: { toolCallId, title: `do ${kind}` },
    options: [
      { optionId: 'always', name: 'Always', kind: 'allow_always' },
      { optionId: 'once', name: 'Once', kind: 'allow_once' },
      { optionId: 'no', name: 'No', kind: 'reject_once' },
    ],
  });
  await say(client, sessionId, `${kind}: ${outcome.optionId ?? outcome.outcome}`);
}

/** Calls a tool of `asp mcp`, started as coding agents start it, and says what it returned. */
async function callTool(client, sessionId, call) {
  const { Client } = await import('@modelcontextprotocol/client');
  const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
  const mcp = new Client({ name: 'scripted', version: '1' });
  const tools = {
    command: 'asp',
    args: ['mcp', '-a', process.env.ASP_AGENT],
    env: { ...process.env },
    stderr: 'ignore',
  };
  await mcp.connect(new StdioClientTransport(tools));
  try {
    const { structuredContent, content } = await mcp.callTool(call);
    await say(client, sessionId, structuredContent?.reply?.content ?? content[0]?.text ?? 'nothing');
  } finally {
    await mcp.close();
  }
}

/** Asks for permission with the tool call and options from the message, and reports the outcome. */
async function request(client, sessionId, { toolCall, options }) {
  const { outcome } = await client.request(methods.client.session.requestPermission, {
    sessionId,
    toolCall: { toolCallId: 'call', ...toolCall },
    options: options ?? [
      { optionId: 'always', name: 'Always', kind: 'allow_always' },
      { optionId: 'once', name: 'Once', kind: 'allow_once' },
      { optionId: 'no', name: 'No', kind: 'reject_once' },
    ],
  });
  note({ what: 'outcome', sessionId, outcome });
  await say(client, sessionId, outcome.optionId ?? outcome.outcome);
}

agent({ name: 'scripted' })
  .onRequest(methods.agent.initialize, () => ({
    protocolVersion: PROTOCOL_VERSION,
    agentCapabilities: {
      loadSession: true,
      sessionCapabilities: close === undefined || close === 'lingers' ? {} : { close: {} },
    },
  }))
  .onRequest(methods.agent.session.new, async () => {
    await takeTime();
    opened += 1;
    const sessionId = `s${opened}`;
    open.add(sessionId);
    note({ what: 'new', sessionId, replay: process.env.ASP_REPLAY });
    return { sessionId };
  })
  .onRequest(methods.agent.session.load, async ({ params: { sessionId }, client }) => {
    if (!entries().some((entry) => entry.what === 'new' && entry.sessionId === sessionId))
      throw RequestError.resourceNotFound(sessionId);
    await takeTime();
    open.add(sessionId);
    broken.delete(sessionId);
    note({ what: 'load', sessionId });
    await say(client, sessionId, 'words of an earlier turn');
    return {};
  })
  .onRequest(methods.agent.session.close, ({ params: { sessionId } }) => {
    if (close === 'refused' || !open.delete(sessionId)) throw RequestError.resourceNotFound(sessionId);
    note({ what: 'close', sessionId });
    return {};
  })
  .onRequest(methods.agent.session.prompt, async ({ params: { sessionId, prompt }, client }) => {
    if (!open.has(sessionId)) throw RequestError.resourceNotFound(sessionId);
    const [{ text }] = prompt;
    note({ what: 'prompt', sessionId, text });
    const words = said(text);
    const [verb, argument] = words.split(/\s/);
    if (verb === 'break') broken.add(sessionId);
    if (broken.has(sessionId)) throw RequestError.internalError();
    if (verb === 'permission') await usePermission(client, sessionId, argument);
    else if (verb === 'request') await request(client, sessionId, JSON.parse(words.slice('request '.length)));
    else if (verb === 'questions') {
      const toolCalls = Array.from({ length: Number(argument) }, (_, index) => ({
        ...{ toolCallId: `call-${index}`, title: `Question ${index}`, kind: 'execute' },
        rawInput: { command: `echo ${index}` },
      }));
      await Promise.all(toolCalls.map((toolCall) => request(client, sessionId, { toolCall })));
    } else if (verb === 'tool') await callTool(client, sessionId, JSON.parse(words.slice('tool '.length)));
    else if (verb === 'quiet') await say(client, sessionId, 'NO_REPLY');
    else if (verb === 'slow' && !text.includes('cut off')) await new Promise(() => setInterval(() => {}, 1000));
    else {
      if (verb === 'pause') await new Promise((resolve) => setTimeout(resolve, 300));
      await say(client, sessionId, `${sessionId} heard ${words}`);
    }
    await client.notify(methods.client.session.update, {
      sessionId,
      update: { sessionUpdate: 'usage_update', used: 1234, size: 200_000, cost: { amount: 0.25, currency: 'USD' } },
    });
    return { stopReason: 'end_turn', usage: { totalTokens: 42, inputTokens: 40, outputTokens: 2 } };
  })
  .onNotification(methods.agent.session.cancel, ({ params }) => note({ what: 'cancel', ...params }))
  .connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
