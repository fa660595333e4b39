import { type RunningService, type ServiceOptions, startService } from '../../src/service/service.js';
import { type Actor, type AgentOptions, createActor, type Operator } from './actors.js';
import { discover, type Place } from './oauth.js';
import { createSchema, TEST_STORE } from './stores.js';

/** A real service on a free port of this machine, and the means to put agents on it. */
export interface TestService extends RunningService {
  readonly place: Place;
  readonly operator: Operator;
  /** A new agent with a client that acts for it; `open` unless said. */
  createAgent(name: string, options?: AgentOptions): Promise<Actor>;
}

/** In memory unless a directory is given, or in a PostgreSQL schema of its own where that is under test. */
export async function startTestService(options: Partial<ServiceOptions> = {}): Promise<TestService> {
  const schema = TEST_STORE === 'postgres' && options.databaseUrl === undefined ? createSchema() : undefined;
  const defaults = { host: '127.0.0.1', port: 0, data: 'memory', databaseUrl: schema?.url } as const;
  const service = await startService({ ...defaults, ...options });
  const place = await discover(service.baseUrl);
  const operator = { url: service.operatorUrl, secret: service.operatorSecret };
  return {
    ...service,
    place,
    operator,
    async stop() {
      await service.stop();
      await schema?.drop();
    },
    createAgent: (name, agentOptions) => createActor(place, operator, name, agentOptions),
  };
}
