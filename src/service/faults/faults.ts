import type { ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import type { Fault, FaultPlan, FaultStatus, Rate } from './fault-plan.js';

const RETRY_AFTER_S = 1;

/** Lets calls, handshakes and sockets fail as a plan says. */
export interface Faults {
  /** The answer of a call, or what a fault made of it. Undefined: the connection ends without one. */
  around<Answer>(answer: () => Promise<Answer>): Promise<Answer | undefined>;
  /** Delays or refuses a handshake. */
  beforeHandshake(): Promise<void>;
  /** Whether a socket that was just sent an event ends now. */
  endsSocket(): boolean;
  /** Ends a socket when its time has come. The answer stops that. */
  endLater(end: () => void): () => void;
}

type Parts = Pick<ServiceContext, 'clock' | 'random' | 'log' | 'meter'>;
type Strike<Kind extends Fault['kind']> = Extract<Fault, { kind: Kind }>;
type Often = Exclude<Fault, { kind: 'expire' }>;

export function createFaults({ faults, seed }: FaultPlan, { clock, random, log, meter }: Parts): Faults {
  const next = createChance(seed ?? Buffer.from(random.bytes(4)).readUInt32LE());
  const dice = new Map(
    faults.flatMap((fault) => ('rate' in fault ? [[fault, createDie(fault.rate, next)] as const] : [])),
  );
  /** Every fault of these kinds is asked, so that none changes how often another strikes; the first that strikes counts. */
  const ask = <Kind extends Often['kind']>(...kinds: readonly Kind[]): Strike<Kind> | undefined => {
    const struck = [...dice].filter(([{ kind }, die]) => (kinds as readonly string[]).includes(kind) && die());
    const fault = struck[0]?.[0] as Strike<Kind> | undefined;
    if (fault !== undefined) tell(fault);
    return fault;
  };
  const tell = (fault: Fault): void => {
    const name = nameOf(fault);
    meter.injected(name);
    log.info('injected', { fault: name });
  };
  const delay = async (): Promise<void> => {
    const fault = ask('delay');
    // In the background, so that no delay outlives the service.
    if (fault !== undefined) await new Promise<void>((resolve) => clock.schedule(fault.delayMs, resolve, true));
  };
  return {
    async around(answer) {
      await delay();
      const fault = ask('refuse', 'lost', 'cut');
      if (fault?.kind === 'refuse') throw refusal(fault.status);
      const answered = await answer();
      if (fault?.kind === 'lost') throw refusal(500);
      return fault === undefined ? answered : undefined;
    },
    async beforeHandshake() {
      await delay();
      const fault = ask('refuse');
      if (fault !== undefined) throw refusal(fault.status);
    },
    endsSocket: () => ask('drop') !== undefined,
    endLater(end) {
      const [first] = faults.filter((fault) => fault.kind === 'expire').sort((one, two) => one.afterMs - two.afterMs);
      if (first === undefined) return () => {};
      return clock.schedule(
        first.afterMs,
        () => {
          tell(first);
          end();
        },
        true,
      );
    },
  };
}

/** What the metrics call it. */
function nameOf(fault: Fault): string {
  if (fault.kind === 'refuse') return String(fault.status);
  return fault.kind === 'expire' ? 'drop' : fault.kind;
}

/** As the service itself would say it. */
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
    return count % rate.every === 0;
  };
}

/** Numbers from 0 up to but not including 1 that a seed decides (mulberry32). */
function createChance(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
