import type { Operation } from '../../wire/endpoint.js';
import type { ServiceContext } from './context.js';
import { ServiceError } from './errors.js';

/** The frequency of a fault: at random, one in N, or the first N. */
export type Rate = { readonly chance: number } | { readonly every: number } | { readonly first: number };

export const FAULT_STATUSES = [429, 500, 502, 503, 504] as const;
type FaultStatus = (typeof FAULT_STATUSES)[number];

/** A fault, of calls of one operation alone if it names one. */
export type Fault = FaultKind & { readonly operation?: Operation | undefined };

/** The faults of a call, a handshake or a socket. */
type FaultKind =
  /** Refused with this status before the call has any effect. */
  | { readonly kind: 'refuse'; readonly status: FaultStatus; readonly rate: Rate }
  /** The call takes effect, but gets 500. */
  | { readonly kind: 'lost'; readonly rate: Rate }
  /** The call takes effect, but the connection ends without an answer. */
  | { readonly kind: 'cut'; readonly rate: Rate }
  | { readonly kind: 'delay'; readonly delayMs: number; readonly rate: Rate }
  /** A socket ends without a closing handshake, right after an event or this long after it was opened. */
  | { readonly kind: 'drop'; readonly rate: Rate }
  | { readonly kind: 'expire'; readonly afterMs: number };

/** The injected faults of a service for testing clients, which may change. With a seed, the same requests get the same faults. */
export interface FaultPlan {
  readonly faults: readonly Fault[];
  readonly seed: number | undefined;
}

const RETRY_AFTER_S = 1;

/** Makes calls, handshakes and sockets fail according to a plan. */
export interface Faults {
  /** The answer of a call, possibly replaced by a fault. Undefined: the connection ends without one. */
  around<Answer>(operation: Operation, answer: () => Promise<Answer>): Promise<Answer | undefined>;
  /** Delays or refuses a handshake. */
  beforeHandshake(): Promise<void>;
  /** Whether a socket that was just sent an event ends now. */
  endsSocket(): boolean;
  /** Ends a socket after its time. The returned function cancels that. */
  endLater(end: () => void): () => void;
}

type Parts = Pick<ServiceContext, 'clock' | 'random' | 'log' | 'meter'>;
type Strike<Kind extends Fault['kind']> = Extract<Fault, { kind: Kind }>;
type Often = Exclude<Fault, { kind: 'expire' }>;

export function createFaults({ faults, seed }: FaultPlan, { clock, random, log, meter }: Parts): Faults {
  const next = createChance(seed ?? Buffer.from(random.bytes(4)).readUInt32LE());
  const dice = new WeakMap<Fault, () => boolean>();
  const dieOf = (fault: Often): (() => boolean) => {
    const die = dice.get(fault) ?? createDie(fault.rate, next);
    dice.set(fault, die);
    return die;
  };
  /**
   * Every fault of these kinds is evaluated, so that none changes how often another occurs; the first one that applies
   * counts.
   */
  const ask = <Kind extends Often['kind']>(
    operation: Operation | undefined,
    ...kinds: readonly Kind[]
  ): Strike<Kind> | undefined => {
    const struck = faults.filter((fault): fault is Strike<Kind> => {
      const isConcerned = fault.operation === undefined || fault.operation === operation;
      return isConcerned && 'rate' in fault && (kinds as readonly string[]).includes(fault.kind) && dieOf(fault)();
    });
    if (struck[0] !== undefined) report(struck[0]);
    return struck[0];
  };
  const report = (fault: Fault): void => {
    const name = toName(fault);
    meter.injected(name);
    log.info('injected', { fault: name });
  };
  const delay = async (operation?: Operation): Promise<void> => {
    const fault = ask(operation, 'delay');
    // In the background, so that no delay outlives the service.
    if (fault !== undefined) await new Promise<void>((resolve) => clock.schedule(fault.delayMs, resolve, true));
  };
  return {
    async around(operation, answer) {
      await delay(operation);
      const fault = ask(operation, 'refuse', 'lost', 'cut');
      if (fault?.kind === 'refuse') throw refusal(fault.status);
      const answered = await answer();
      if (fault?.kind === 'lost') throw refusal(500);
      return fault === undefined ? answered : undefined;
    },
    async beforeHandshake() {
      await delay();
      const fault = ask(undefined, 'refuse');
      if (fault !== undefined) throw refusal(fault.status);
    },
    endsSocket: () => ask(undefined, 'drop') !== undefined,
    endLater(end) {
      const [first] = faults.filter((fault) => fault.kind === 'expire').sort((one, two) => one.afterMs - two.afterMs);
      if (first === undefined) return () => {};
      return clock.schedule(
        first.afterMs,
        () => {
          report(first);
          end();
        },
        true,
      );
    },
  };
}

/** Its name in the metrics. */
function toName(fault: Fault): string {
  if (fault.kind === 'refuse') return String(fault.status);
  return fault.kind === 'expire' ? 'drop' : fault.kind;
}

/** In the service's own words. */
function refusal(status: FaultStatus): ServiceError {
  if (status === 429) return new ServiceError('RATE_LIMITED', undefined, { retryAfterS: RETRY_AFTER_S });
  return new ServiceError('INTERNAL_ERROR', undefined, {
    status,
    ...(status === 503 && { retryAfterS: RETRY_AFTER_S }),
  });
}

function createDie(rate: Rate, next: () => number): () => boolean {
  if ('chance' in rate) return () => next() < rate.chance;
  let count = 0;
  return () => {
    count += 1;
    return 'every' in rate ? count % rate.every === 0 : count <= rate.first;
  };
}

/** Numbers from 0 up to but not including 1, determined by a seed (mulberry32). */
function createChance(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
