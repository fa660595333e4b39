import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';

import { createHome, type Home } from '../../acceptance/program.js';
import { programWords } from '../../support/built-program-file.js';
import { request } from '../../support/http.js';
import { text } from '../../support/json.js';
import { multipart } from '../../support/multipart.js';
import { actorIn } from '../../support/operator.js';
import { until } from '../../support/until.js';

const FILES = 96;
const CONNECTIONS = 150;
const DOWNLOAD_FILES = 300;

let home: Home;
const open: Socket[] = [];
beforeEach(() => {
  home = createHome();
});
afterEach(async () => {
  for (const socket of open.splice(0)) socket.destroy();
  await home.dispose();
});

/** Opens a connection, sends a request on it, and leaves it open. Returns the first line of what it reads, and no more. */
async function ask(port: number, path = '/health'): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  open.push(socket);
  socket.on('error', () => {});
  const head = new Promise<string>((resolve) => {
    socket.once('close', () => resolve('refused'));
    socket.once('data', (bytes) => {
      socket.pause();
      resolve(String(bytes).split('\r\n', 1)[0] ?? '');
    });
  });
  socket.write(`GET ${path} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n\r\n`);
  return head;
}

const withFiles = (files: number, words: readonly string[]): readonly string[] => [
  '-c',
  `ulimit -n ${files}; exec "$@"`,
  'sh',
  ...[process.execPath, ...programWords(words)],
];

it.runIf(process.platform === 'linux')(
  'A service that may open few files refuses connections beyond them, says so once, and keeps room for others',
  async () => {
    const service = home.spawn('sh', withFiles(FILES, ['serve', '--port', '0', '--data', 'memory']));
    const [, url = ''] = await service.until('stdout', /^(http:\S+)$/m);
    const { origin, port } = new URL(url);
    for (let count = 0; count < CONNECTIONS; count += 1) await ask(Number(port));
    const [line] = await service.until('stderr', /.*connections_full.*/);
    expect(line).toMatch(new RegExp(`All ${FILES / 3} connections are in use: .*ulimit -n`));
    await until('it answers', async () => (await request(`${origin}/ready`).catch(() => undefined))?.status === 200);
    expect(service.stderr().match(/connections_full/g)).toHaveLength(1);
    service.kill('SIGINT');
    expect(await service.ended).toMatchObject({ status: 0 });
  },
);

it.runIf(process.platform === 'linux')(
  'A service that may open few files keeps one for each connection: all of them may download at once',
  async () => {
    const words = ['serve', '--port', '0', '--data', home.directory, '--seed', 'alice.bot', '--log', 'errors'];
    const service = home.spawn('sh', withFiles(DOWNLOAD_FILES, words));
    const [, url = ''] = await service.until('stdout', /^(http:\S+)$/m);
    const alice = await actorIn(home, url, '@alice.bot');
    const { type, body } = multipart([{ bytes: Buffer.alloc(9_000_000, 'long ') }]);
    const headers = { authorization: `Bearer ${await alice.token()}` };
    const uploaded = await request(`${url}/attachments`, {
      ...{ method: 'POST', headers: { ...headers, 'content-type': type, 'idempotency-key': 'long' }, body },
    });
    const { json } = await request(`${url}/attachments/${text(uploaded.json, 'id')}`, { headers });
    const link = new URL(text(json, 'url'));
    const heads = new Set<string>();
    for (let count = 0; count < 200; count += 1) heads.add(await ask(Number(link.port), link.pathname + link.search));
    expect([...heads]).toEqual(['HTTP/1.1 200 OK', 'refused']);
    await service.until('stderr', new RegExp(`connections_full: All ${DOWNLOAD_FILES / 3} connections`));
    for (const socket of open) socket.destroy();
    service.kill('SIGINT');
    expect(await service.ended).toMatchObject({ status: 0 });
    expect(service.stderr()).not.toContain('EMFILE');
  },
);
