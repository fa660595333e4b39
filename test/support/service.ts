import { type RunningService, type ServiceOptions, startService } from '../../src/service/service.js';
import { type Actor, type AgentOptions, createActor, type Operator } from './actors.js';
import { discover, type Place } from './oauth.js';

/** A real service on a free port of this machine, and the means to put agents on it. */
export interface TestService extends RunningService {
  readonly place: Place;
  readonly operator: Operator;
  /** A new agent with a client that acts for it; `open` unless said. */
  createAgent(name: string, options?: AgentOptions): Promise<Actor>;
}

/** In memory unless a directory is given. */
export async function startTestService(options: Partial<ServiceOptions> = {}): Promise<TestService> {
  const service = await startService({ host: '127.0.0.1', port: 0, data: 'memory', ...options });
  const place = await discover(service.baseUrl);
  const operator = { url: service.operatorUrl, secret: service.operatorSecret };
  return {
    ...service,
    place,
    operator,
    createAgent: (name, agentOptions) => createActor(place, operator, name, agentOptions),
  };
}
