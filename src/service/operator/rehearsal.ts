import type * as z from 'zod/mini';
import type { TurnableClock } from '../../kit/turnable-clock.js';
import { CLOSE_CODE } from '../../wire/realtime.js';
import type { EventEnvelope } from '../../wire/schemas/event.js';
import type { TriggerEventRequest } from '../../wire/schemas/operator.js';
import type { ServiceContext } from '../core/context.js';
import { ServiceError } from '../core/errors.js';
import type { Fault } from '../core/faults.js';
import { toEnvelope } from '../messaging/events.js';
import { findAgentByHandle } from '../store/agents.js';
import { deleteAllButAgents } from '../store/deleted-sessions.js';

/** The parts of a running service for tests that its operator can change. */
export interface Rehearsal {
  /** Undefined: time passes as it does. */
  readonly clock?: TurnableClock | undefined;
  /** The faults of the service's plan; undefined: it is not a service for tests. */
  readonly faults?: Fault[] | undefined;
  /** Gets the events of all sessions as soon as they are written, those of one session in order. */
  readonly onEvents?: ((events: readonly EventEnvelope[]) => void) | undefined;
}

/** The parts of the service's connections that a trigger uses. */
export interface Connections {
  /** Closes the sockets of an agent with this code, or without a closing handshake; says how many. */
  closeSocketsOf(agentId: string, code: number | undefined): number;
  /** Lets the access tokens that an agent has used expire; says how many. */
  expireTokensOf(agentId: string): number;
}

/** Tells the test what is written, whatever faults the service has. */
export function reportEvents({ bus }: Pick<ServiceContext, 'bus'>, { onEvents }: Rehearsal): void {
  if (onEvents === undefined) return;
  bus.listen((signal) => {
    if (signal.kind === 'events' && signal.events !== undefined) onEvents(signal.events.map(toEnvelope));
  });
}

/** Deletes what agents did, so that the next test begins with the same agents and an empty service. */
export async function resetData({ database }: Pick<ServiceContext, 'database'>): Promise<void> {
  await database.write(deleteAllButAgents);
}

/** The time after the jump. */
export function advanceClock({ clock }: Rehearsal, ms: number): { now: number } {
  if (clock === undefined)
    throw new ServiceError(
      'FEATURE_NOT_AVAILABLE',
      'Its clock cannot be moved. Start it with asp serve --data memory --clock controlled.',
    );
  clock.advance(ms);
  return { now: clock.now() };
}

/** Lets something happen that programs must be ready for. `count` says to how many tokens, sockets or calls. */
export async function triggerEvent(
  { database }: Pick<ServiceContext, 'database'>,
  { faults }: Rehearsal,
  connections: Connections,
  body: z.output<typeof TriggerEventRequest>,
): Promise<{ count: number }> {
  if (faults === undefined)
    throw new ServiceError(
      'FEATURE_NOT_AVAILABLE',
      'It is not a service for tests. Start it with asp serve --demo, --inject or --data memory.',
    );
  if (body.event === 'fault') {
    planOnce(faults, body);
    return { count: body.times };
  }
  const agent = await database.read((query) => findAgentByHandle(query, body.handle));
  if (agent === undefined) throw new ServiceError('AGENT_NOT_FOUND');
  if (body.event === 'drop') return { count: connections.closeSocketsOf(agent.id, body.code) };
  const count = connections.expireTokensOf(agent.id);
  connections.closeSocketsOf(agent.id, CLOSE_CODE.tokenEnded);
  return { count };
}

type FaultRequest = Extract<z.output<typeof TriggerEventRequest>, { event: 'fault' }>;

/** The next calls fail. It replaces what is left of the same fault, so that there are never more than one of each. */
function planOnce(faults: Fault[], { fault, times }: FaultRequest): void {
  const rate = { first: times };
  const planned: Fault = typeof fault === 'number' ? { kind: 'refuse', status: fault, rate } : { kind: fault, rate };
  const nameOf = (one: Fault): unknown => (one.kind === 'refuse' ? one.status : one.kind);
  const isSame = (one: Fault): boolean => 'rate' in one && 'first' in one.rate && nameOf(one) === fault;
  const earlier = faults.findIndex(isSame);
  if (earlier >= 0) faults.splice(earlier, 1);
  faults.push(planned);
}
