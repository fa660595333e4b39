import { FAULT_STATUSES, type Fault, type FaultPlan, type Rate } from '../../../service/faults/fault-plan.js';
import { UsageError } from '../../errors.js';
import { durationMs, readCount } from '../../values.js';

const SEED_MAX = 2 ** 32 - 1;
const KINDS = [...FAULT_STATUSES, 'lost', 'cut', 'delay', 'drop', 'seed'].join(', ');
const ALWAYS: Rate = { every: 1 };

/**
 * `429:10%,500:1/20,lost:2%,cut:1%,delay:200ms@50%,drop:1m,seed:7`: what goes wrong, and how often: a share of all, or
 * every so many times.
 */
export function readFaults(source: string, text: string): FaultPlan {
  const faults: Fault[] = [];
  let seed: number | undefined;
  for (const item of text.split(',')) {
    const [, kind = '', amount = ''] = /^([^:]*):(.*)$/.exec(item.trim()) ?? [];
    if (kind === 'seed') seed = readCount(`${source} seed`, amount, { max: SEED_MAX });
    else faults.push(readFault(source, item.trim(), kind, amount));
  }
  if (faults.length === 0) throw new UsageError(`${source} '${text}' names no fault.`, { why: `faults are ${KINDS}.` });
  return { faults, seed };
}

function readFault(source: string, item: string, kind: string, amount: string): Fault {
  const refuse = (why: string): UsageError => new UsageError(`${source} '${item}' is not a fault.`, { why });
  const rate = (given: string): Rate => {
    const read = rateOf(given);
    if (read === undefined) throw refuse(`'${given}' is not how often: say a share (10%), or every fifth time (1/5).`);
    return read;
  };
  const status = FAULT_STATUSES.find((candidate) => String(candidate) === kind);
  if (status !== undefined) return { kind: 'refuse', status, rate: rate(amount) };
  if (kind === 'lost' || kind === 'cut') return { kind, rate: rate(amount) };
  if (kind === 'delay') {
    const [duration = '', often] = amount.split('@');
    const delayMs = durationMs(duration);
    if (delayMs === undefined) throw refuse('a delay looks like delay:200ms, or delay:2s@10% for some of all calls.');
    return { kind, delayMs, rate: often === undefined ? ALWAYS : rate(often) };
  }
  if (kind === 'drop') {
    const afterMs = durationMs(amount);
    if (afterMs !== undefined) return { kind: 'expire', afterMs };
    if (rateOf(amount) === undefined)
      throw refuse('sockets drop after a time (drop:1m) or behind some of all events (drop:5%, drop:1/20).');
    return { kind, rate: rate(amount) };
  }
  throw refuse(`faults are ${KINDS}, each with how often: 429:10%.`);
}

function rateOf(text: string): Rate | undefined {
  const share = /^(\d{1,3}(?:\.\d{1,6})?)%$/.exec(text)?.[1];
  const every = /^1\/([1-9]\d{0,8})$/.exec(text)?.[1];
  if (every !== undefined) return { every: Number(every) };
  const chance = Number(share ?? Number.NaN) / 100;
  return chance > 0 && chance <= 1 ? { chance } : undefined;
}
