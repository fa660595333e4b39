import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

/** One turn as the model received it. */
export interface ModelTurn {
  /** When the request was read, in milliseconds since the epoch. */
  readonly at: number;
  /** The last user text that asp framed. */
  readonly text: string;
}

/** A scripted language model for coding agents, on loopback. */
export interface ScriptedModel {
  readonly url: string;
  readonly turns: readonly ModelTurn[];
  stop(): Promise<void>;
}

interface Body {
  readonly model?: string;
  readonly stream?: boolean;
  readonly tools?: readonly unknown[];
  readonly messages?: readonly { role: string; content: string | readonly { type: string; text?: string }[] }[];
}

const PAUSE_MS = 300;

/**
 * Answers requests to Anthropic's Messages API and OpenAI's Chat Completions. A message is a verb and a name: `pause`
 * takes a moment, `slow` never ends unless asp says that an earlier turn was cut off, and all others get an answer at
 * once.
 */
export async function startScriptedModel(): Promise<ScriptedModel> {
  const turns: ModelTurn[] = [];
  const server = createServer((request, response) => {
    void answer(request, response, turns).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    turns,
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function answer(request: IncomingMessage, response: ServerResponse, turns: ModelTurn[]): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const at = Date.now();
  const body = JSON.parse(Buffer.concat(chunks).toString() || '{}') as Body;
  const text = findPrompt(body);
  let said = 'A title';
  // A request without tools is not part of a turn. It asks for a title, for example.
  if (text !== undefined && (body.tools?.length ?? 0) > 0) {
    turns.push({ at, text });
    const [, content = '', verb] = /begin untrusted message[^\n]*\n((\S+)[\s\S]*)\n=== /.exec(text) ?? [];
    if (verb === 'slow' && !text.includes('cut off')) return;
    if (verb === 'pause') await pause(PAUSE_MS);
    said = `heard ${content}`;
  }
  if (/\/messages/.test(request.url ?? '')) sendMessage(response, body, said);
  else if (/\/chat\/completions/.test(request.url ?? '')) sendCompletion(response, body, said);
  else response.writeHead(404).end();
}

/** The last text of asp since the model spoke last: some programs add a reminder after it. */
function findPrompt({ messages = [] }: Body): string | undefined {
  const since = messages.slice(messages.findLastIndex(({ role }) => role === 'assistant') + 1);
  const texts = since
    .filter(({ role }) => role === 'user')
    .flatMap(({ content }) => (typeof content === 'string' ? [content] : content.map(({ text = '' }) => text)));
  return texts.findLast((text) => text.includes('begin untrusted message'));
}

function sendMessage(response: ServerResponse, { model, stream }: Body, text: string): void {
  const usage = { input_tokens: 40, output_tokens: 2 };
  const head = { id: 'msg_1', type: 'message', role: 'assistant', model, stop_sequence: null, usage };
  if (stream !== true) sendJson(response, { ...head, content: [{ type: 'text', text }], stop_reason: 'end_turn' });
  else {
    const events = [
      { type: 'message_start', message: { ...head, content: [], stop_reason: null } },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage },
      { type: 'message_stop' },
    ];
    sendStream(
      response,
      events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`),
    );
  }
}

function sendCompletion(response: ServerResponse, { model, stream }: Body, content: string): void {
  const head = { id: 'chat_1', created: 1, model };
  const usage = { prompt_tokens: 40, completion_tokens: 2, total_tokens: 42 };
  const message = { role: 'assistant', content };
  if (stream !== true) sendJson(response, { ...head, usage, choices: [{ index: 0, message, finish_reason: 'stop' }] });
  else {
    const chunks = [
      { choices: [{ index: 0, delta: message, finish_reason: null }] },
      { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage },
    ].map((chunk) => JSON.stringify({ ...head, object: 'chat.completion.chunk', ...chunk }));
    sendStream(
      response,
      [...chunks, '[DONE]'].map((data) => `data: ${data}\n\n`),
    );
  }
}

function sendJson(response: ServerResponse, value: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
}

function sendStream(response: ServerResponse, events: readonly string[]): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' }).end(events.join(''));
}
