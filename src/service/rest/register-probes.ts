import type { FastifyInstance } from 'fastify';

import { OPENAPI_PATH, READY_PATH } from '../../wire/health.js';
import type { ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import { findSchemaVersion } from '../store/operator-rows.js';
import { answerWith, JSON_TYPE } from './error-answer.js';
import { sendAnswer } from './send-answer.js';

const DATABASE_ANSWERS_WITHIN_MS = 2_000;

/** What those ask who watch over a service or write a client for it: is it ready, and what does it offer. */
export function registerProbes(app: FastifyInstance, context: ServiceContext, version: string): void {
  app.get(READY_PATH, async (_request, reply) => {
    await requireDatabase(context);
    return sendAnswer(reply, answerWith(200, JSON_TYPE, '{"ok":true}'));
  });
  let description: Promise<string> | undefined;
  app.get(OPENAPI_PATH, async (_request, reply) => {
    description ??= import('../openapi/openapi.js').then(({ describeApi }) =>
      JSON.stringify(describeApi(context.settings.addresses, version)),
    );
    return sendAnswer(reply, answerWith(200, JSON_TYPE, await description));
  });
}

async function requireDatabase({ database, clock, log }: ServiceContext): Promise<void> {
  let cancel = (): void => {};
  const tooLong = new Promise<never>((_, reject) => {
    cancel = clock.schedule(DATABASE_ANSWERS_WITHIN_MS, () => reject(new Error('no answer in time')), true);
  });
  try {
    await Promise.race([database.read(findSchemaVersion), tooLong]);
  } catch (error) {
    log.error('database_not_ready', error);
    throw new ServiceError('INTERNAL_ERROR', 'The service is not ready.', { status: 503, retryAfterS: 1 });
  } finally {
    cancel();
  }
}
