import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';

import type { Answer } from './error-answer.js';

/** Writes an answer on a connection that has no response object, and closes it. */
export function writeRawAnswer(socket: Duplex, answer: Answer): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const lines = [`HTTP/1.1 ${answer.status} ${STATUS_CODES[answer.status] ?? 'Error'}`];
  for (const [name, value] of answer.headers) if (name !== 'connection') lines.push(`${name}: ${value}`);
  lines.push(`content-length: ${Buffer.byteLength(answer.body)}`, 'connection: close', '', answer.body);
  socket.once('finish', () => socket.destroy());
  socket.end(lines.join('\r\n'));
}
