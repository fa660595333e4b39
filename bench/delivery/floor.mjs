// The minimum cost of a durable broadcast: one flushed INSERT for each message, behind bare node:http, and one frame
// for each socket.
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { WebSocketServer } from 'ws';

const { DatabaseSync } = await import('@photostructure/sqlite');
const folder = mkdtempSync(join(tmpdir(), 'asp-floor-'));
const database = new DatabaseSync(join(folder, 'floor.sqlite'));
database.exec(
  'PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE event (id INTEGER PRIMARY KEY, payload TEXT)',
);
const insert = database.prepare('INSERT INTO event (payload) VALUES (?)');

const server = createServer((request, response) => {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => {
    const text = Buffer.concat(chunks).toString();
    insert.run(text);
    response.end('{}');
    const frame = Buffer.from(text);
    for (const socket of sockets.clients) socket.send(frame, { binary: false });
  });
});
const sockets = new WebSocketServer({ server, perMessageDeflate: false });
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
process.on('SIGTERM', () => {
  database.close();
  rmSync(folder, { recursive: true, force: true });
  process.exit();
});
