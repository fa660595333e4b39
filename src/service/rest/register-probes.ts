import type { FastifyInstance } from 'fastify';

import { OPENAPI_PATH, READY_PATH } from '../../wire/health.js';
import type { ServiceContext } from '../context.js';
import { answerWith, JSON_TYPE } from './error-answer.js';
import { sendAnswer } from './send-answer.js';

/** What those ask who watch over a service or write a client for it: is it ready, and what does it offer. */
export function registerProbes(
  app: FastifyInstance,
  { settings }: Pick<ServiceContext, 'settings'>,
  health: { requireReady(): Promise<void> },
): void {
  app.get(READY_PATH, async (_request, reply) => {
    await health.requireReady();
    return sendAnswer(reply, answerWith(200, JSON_TYPE, '{"ok":true}'));
  });
  let description: Promise<string> | undefined;
  app.get(OPENAPI_PATH, async (_request, reply) => {
    description ??= import('../openapi/openapi.js').then(({ describeApi }) =>
      JSON.stringify(describeApi(settings.addresses)),
    );
    return sendAnswer(reply, answerWith(200, JSON_TYPE, await description));
  });
}
