import type { FastifyReply } from 'fastify';

import type { Answer } from './error-answer.js';

export function sendAnswer(reply: FastifyReply, answer: Answer): FastifyReply {
  reply.code(answer.status);
  for (const [name, value] of answer.headers)
    if (answer.status !== 204 || name !== 'content-type') reply.header(name, value);
  return reply.send(answer.status === 204 ? undefined : answer.body);
}
