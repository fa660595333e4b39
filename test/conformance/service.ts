import { afterAll, beforeAll, beforeEach } from 'vitest';

import { type Actor, type AgentOptions, createActor, type Operator, operate } from '../support/actors.js';
import { discover, type Place } from '../support/oauth.js';
import { startTarget, type Target, type TargetOptions } from './target.js';

/** The service that the tests of one file use. */
export interface Service {
  readonly place: Place;
  readonly operator: Operator;
  /** Creates an agent whose handle begins with this name. Its inbound policy is open by default. */
  actor(name: string, options?: AgentOptions): Promise<Actor>;
  /** Creates several agents at once. */
  actors<const Name extends string>(...names: Name[]): Promise<Record<Name, Actor>>;
  pause(actor: Actor): Promise<void>;
  /** Moves the service's clock, if the test controls it. */
  advance(ms: number): void;
}

/** Starts a service before the tests of this file and stops it after them. */
export function useService(options: TargetOptions = {}): Service {
  let target: Target | undefined;
  let place: Place | undefined;

  beforeAll(async () => {
    target = await startTarget(options);
    if (target !== undefined) place = await discover(target.baseUrl);
  });
  beforeEach(({ skip }) => {
    if (target === undefined) skip('the given service runs otherwise');
  });
  afterAll(() => target?.stop());

  const known = (): Place => {
    if (place === undefined) throw new Error('the service runs only while tests do');
    return place;
  };
  const operator = (): Operator => {
    if (target === undefined) throw new Error('the service runs only while tests do');
    return target.operator;
  };
  const actor: Service['actor'] = (name, given) => createActor(known(), operator(), name, given);

  return {
    get place() {
      return known();
    },
    get operator() {
      return operator();
    },
    actor,
    async actors(...names) {
      const made = await Promise.all(names.map(async (name) => [name, await actor(name)] as const));
      return Object.fromEntries(made) as Record<(typeof names)[number], Actor>;
    },
    advance: (ms) => target?.advance(ms),
    async pause({ handle }) {
      await operate(operator(), 'PATCH', `/agents/${encodeURIComponent(handle)}`, { paused: true });
    },
  };
}
