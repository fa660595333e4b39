// An agent program that speaks the protocol by hand, and misbehaves on request.
import { existsSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const update = (sessionId, text) =>
  send({
    method: 'session/update',
    params: { sessionId, update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } } },
  });

const has = (word) => process.argv.includes(word);
let opened = 0;
process.stdout.write('Welcome to the rude agent!\n');

function prompt(id, { sessionId, prompt: [{ text }] }) {
  if (text.includes('\nnoise\n')) {
    process.stdout.write('{"jsonrpc":"2.0","id":\n[1,2]\n');
    send({ method: 'no/such', params: {} });
    send({ id: 'mine', method: 'fs/read_text_file', params: { path: '/etc/passwd' } });
    send({ id: 999, result: {} });
    send({ method: 'session/update', params: { sessionId, update: { sessionUpdate: 'of_next_year', x: 1 } } });
    update(sessionId, 'still here');
  } else if (text.includes('\nwork aloud\n')) {
    for (let step = 1; step <= 3; step += 1) {
      update(sessionId, 'x'.repeat(step * 100 * 1024));
      const call = { sessionUpdate: 'tool_call', toolCallId: `step ${step}`, title: 'work' };
      send({ method: 'session/update', params: { sessionId, update: call } });
    }
    update(sessionId, 'done');
  } else if (text.includes('\ntalk\n'))
    for (let part = 1; part <= 3; part += 1) update(sessionId, 'x'.repeat(100 * 1024));
  else if (text.includes('\nhang\n')) return void writeFileSync('hanging', '');
  else if (text.includes('\npatient\n') && !text.includes('cut off')) return;
  else if (text.includes('\ndie\n')) process.exit(3);
  else if (text.includes('\nonce\n') && !text.includes('cut off')) process.exit(4);
  else if (text.includes('\nendless line\n')) return void process.stdout.write('x'.repeat(9 * 1024 * 1024));
  else if (text.includes('\nerror\n')) return send({ id, error: { code: -32603, message: 'out of\u001b[31m money' } });
  else if (text.includes('\nsign in\n'))
    return send({ id, error: { code: -32000, message: 'Authentication required' } });
  else update(sessionId, 'polite');
  send({ id, result: { stopReason: 'end_turn' } });
}

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === 'initialize') {
    if (has('--silent')) return;
    if (has('--locked')) return send({ id, error: { code: -32000, message: 'Authentication required' } });
    send({ id, result: { protocolVersion: has('--v9') ? 9 : 1 } });
    if (has('--frail')) setTimeout(() => process.exit(5), 100);
  }
  if (method === 'session/new') {
    if (has('--stuck')) return;
    opened += 1;
    if (has('--faint') && opened === 2 && !existsSync('fainted')) {
      writeFileSync('fainted', '');
      process.exit(6);
    }
    send({ id, result: { sessionId: `r${opened}` } });
  }
  if (method === 'session/cancel') process.stderr.write('no, I go on\n');
  if (method === 'session/prompt') prompt(id, params);
});
