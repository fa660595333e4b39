import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ServiceContext } from '../../../src/service/core/context.js';
import { type OperatorServer, offerOperator } from '../../../src/service/operator/operator.js';
import { askOperator } from '../../support/actors.js';
import { openStage, type Stage } from '../sessions/stage.js';

const SECRET = 'secret-of-the-operator';
const ACCOUNTS = 600;

let stage: Stage;
let server: OperatorServer;
let logged: string[];
let readsLeft: number;

beforeEach(async () => {
  stage = await openStage();
  logged = [];
  readsLeft = Number.POSITIVE_INFINITY;
  const context: ServiceContext = {
    ...stage.context,
    database: {
      ...stage.context.database,
      read: async (work) => {
        readsLeft -= 1;
        if (readsLeft < 0) throw new Error('The disk reported an error.');
        return stage.context.database.read(work);
      },
    },
    log: { ...stage.context.log, error: (event, error) => logged.push(`${event}: ${error}`) },
  };
  const options = { secret: SECRET } as Parameters<typeof offerOperator>[2]['options'];
  server = await offerOperator(undefined as never, context, { root: undefined, options });
});
afterEach(async () => {
  await server.close();
  await stage.close();
});

const ask = (method: string, path: string) => askOperator({ url: server.url, secret: SECRET }, method, path);

describe('An answer that fails while it is sent', () => {
  it('is in the log: a list', async () => {
    for (let count = 0; count < ACCOUNTS; count += 1) await stage.addAccount(`account-${count}`);
    expect((await ask('GET', '/accounts')).status).toBe(200);
    expect(logged).toEqual([]);
    readsLeft = 1;
    await expect(ask('GET', '/accounts')).rejects.toThrow();
    expect(logged).toEqual(['request_failed: Error: The disk reported an error.']);
  });

  it('is in the log: an export', async () => {
    await stage.addAccount('alice');
    readsLeft = 1;
    await expect(ask('POST', '/accounts/alice/export')).rejects.toThrow();
    expect(logged).toEqual(['request_failed: Error: The disk reported an error.']);
  });
});
