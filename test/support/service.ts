import { type RunningService, type ServiceOptions, startService } from '../../src/service/service.js';
import { type Actor, type AgentOptions, createActor, type Operator } from './actors.js';
import { discover, type Place } from './oauth.js';
import { TEST_STORE, takeSchema } from './stores.js';

/** A real service on a free local port, and the means to create agents on it. */
export interface TestService extends RunningService {
  readonly place: Place;
  readonly operator: Operator;
  /** Creates an agent with a client that acts for it. The access is `open` by default. */
  createAgent(name: string, options?: AgentOptions): Promise<Actor>;
}

/** Starts a service in memory, in `directory`, or in a separate PostgreSQL schema if PostgreSQL is under test. */
export async function startTestService(options: Partial<ServiceOptions> = {}): Promise<TestService> {
  const schema = TEST_STORE === 'postgres' && options.databaseUrl === undefined ? takeSchema() : undefined;
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
