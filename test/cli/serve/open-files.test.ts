import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';

import { createHome, type Home } from '../../acceptance/program.js';
import { programWords } from '../../support/built-program-file.js';
import { request } from '../../support/http.js';
import { until } from '../../support/until.js';

const FILES = 96;
const CONNECTIONS = 150;

let home: Home;
const open: Socket[] = [];
beforeEach(() => {
  home = createHome();
});
afterEach(async () => {
  for (const socket of open.splice(0)) socket.destroy();
  await home.dispose();
});

/** Opens a connection, sends a request on it, and leaves it open. */
async function ask(port: number): Promise<void> {
  const socket = connect(port, '127.0.0.1');
  open.push(socket);
  socket.on('error', () => {});
  await new Promise((resolve) => {
    socket.once('data', resolve).once('close', resolve);
    socket.write(`GET /health HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n\r\n`);
  });
}

it.runIf(process.platform === 'linux')(
  'A service that may open few files refuses connections beyond them, says so once, and keeps room for others',
  async () => {
    const words = [process.execPath, ...programWords(['serve', '--port', '0', '--data', 'memory'])];
    const service = home.spawn('sh', ['-c', `ulimit -n ${FILES}; exec "$@"`, 'sh', ...words]);
    const [, url = ''] = await service.until('stdout', /^(http:\S+)$/m);
    const { origin, port } = new URL(url);
    for (let count = 0; count < CONNECTIONS; count += 1) await ask(Number(port));
    const [line] = await service.until('stderr', /.*connections_full.*/);
    expect(line).toMatch(new RegExp(`All ${FILES / 2} connections are in use: .*ulimit -n`));
    await until('it answers', async () => (await request(`${origin}/ready`).catch(() => undefined))?.status === 200);
    expect(service.stderr().match(/connections_full/g)).toHaveLength(1);
    service.kill('SIGINT');
    expect(await service.ended).toMatchObject({ status: 0 });
  },
);
