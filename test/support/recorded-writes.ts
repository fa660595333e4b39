import { createReadStream } from 'node:fs';
import { basename } from 'node:path';
import { createInterface } from 'node:readline';

/** What a process did to the files in a folder and printed, in the order of its system calls. */
export type Step =
  | { readonly kind: 'write'; readonly file: string; readonly at: number; readonly bytes: Buffer }
  | { readonly kind: 'truncate'; readonly file: string; readonly size: number }
  | { readonly kind: 'flush'; readonly file: string }
  | { readonly kind: 'remove'; readonly file: string }
  | { readonly kind: 'said'; readonly text: string };

/** The `strace` options that `readSteps` relies on. */
export const RECORDING = [
  ...['-f', '-qq', '-y', '-xx', '-s', '100000'],
  ...['-e', 'trace=pwrite64,write,fdatasync,fsync,ftruncate,unlink,unlinkat', '-e', 'signal=none'],
];

const CALL = /^\d+ +(\w+)\((.*)\) += (-?\d+)/;
const UNFINISHED = /^(\d+) +(.*) <unfinished \.\.\.>$/;
const RESUMED = /^(\d+) +<\.\.\. \w+ resumed>(.*)$/;

const bytesOf = (hex: string): Buffer => Buffer.from(hex.replaceAll('\\x', ''), 'hex');

/** Reads a `strace` record: the changes to files in `folder`, and the standard output. */
export async function readSteps(record: string, folder: string): Promise<Step[]> {
  const steps: Step[] = [];
  const begun = new Map<string, string>();
  for await (const line of createInterface({ input: createReadStream(record) })) {
    const unfinished = UNFINISHED.exec(line);
    if (unfinished !== null) {
      begun.set(unfinished[1] ?? '', unfinished[2] ?? '');
      continue;
    }
    const resumed = RESUMED.exec(line);
    const whole = resumed === null ? line : `${resumed[1]} ${begun.get(resumed[1] ?? '') ?? ''}${resumed[2]}`;
    const step = readStep(whole, folder);
    if (step !== undefined) steps.push(step);
  }
  return steps;
}

function readStep(line: string, folder: string): Step | undefined {
  const [, call = '', words = '', result = ''] = CALL.exec(line) ?? [];
  if (call === '' || result.startsWith('-')) return undefined;
  if (call.startsWith('unlink')) {
    const path = bytesOf(/"([^"]*)"/.exec(words)?.[1] ?? '').toString();
    return path.startsWith(folder) ? { kind: 'remove', file: basename(path) } : undefined;
  }
  const [, descriptor = '', path = '', rest = ''] = /^(\d+)<([^>]*)>(?:, )?(.*)$/.exec(words) ?? [];
  if (call === 'write') {
    const [, text = ''] = /^"([^"]*)"/.exec(rest) ?? [];
    return descriptor === '1' ? { kind: 'said', text: bytesOf(text).toString() } : undefined;
  }
  const real = path.includes('\\x') ? bytesOf(path).toString() : path;
  if (!real.startsWith(`${folder}/`)) return undefined;
  const file = basename(real);
  if (call === 'ftruncate') return { kind: 'truncate', file, size: Number(rest) };
  if (call !== 'pwrite64') return { kind: 'flush', file };
  const [, data = '', , at = ''] = /^"([^"]*)", (\d+), (\d+)$/.exec(rest) ?? [];
  return { kind: 'write', file, at: Number(at), bytes: bytesOf(data).subarray(0, Number(result)) };
}

type Change = Extract<Step, { kind: 'write' | 'truncate' }>;

/** A file's content on disk, and the changes since its last flush. */
interface Image {
  durable: Buffer;
  pending: Change[];
}

/** A simulated disk that keeps only flushed changes in a crash. File names are durable at once. */
export interface CrashingDisk {
  take(step: Step): void;
  readonly pendingCount: number;
  /** Returns the files after a power failure. `keep` decides how much of each unflushed change reached the disk. */
  filesAfterCrash(keep: (index: number, count: number, change: Change) => Change | undefined): Map<string, Buffer>;
}

export function createCrashingDisk(files: ReadonlyMap<string, Buffer>): CrashingDisk {
  const images = new Map<string, Image>([...files].map(([name, durable]) => [name, { durable, pending: [] }]));
  const imageOf = (file: string): Image => {
    const image = images.get(file) ?? { durable: Buffer.alloc(0), pending: [] };
    images.set(file, image);
    return image;
  };
  return {
    take(step) {
      if (step.kind === 'said') return;
      if (step.kind === 'remove') return void images.delete(step.file);
      const image = imageOf(step.file);
      if (step.kind !== 'flush') return void image.pending.push(step);
      image.durable = image.pending.reduce(apply, image.durable);
      image.pending = [];
    },
    get pendingCount() {
      return [...images.values()].reduce((sum, { pending }) => sum + pending.length, 0);
    },
    filesAfterCrash(keep) {
      let index = -1;
      const count = this.pendingCount;
      return new Map(
        [...images].map(([name, { durable, pending }]) => {
          const kept = pending.flatMap((change) => {
            index += 1;
            return keep(index, count, change) ?? [];
          });
          return [name, kept.reduce(apply, durable)];
        }),
      );
    },
  };
}

function apply(content: Buffer, change: Change): Buffer {
  if (change.kind === 'truncate') {
    const next = Buffer.alloc(change.size);
    content.copy(next);
    return next;
  }
  const next = Buffer.alloc(Math.max(content.length, change.at + change.bytes.length));
  content.copy(next);
  change.bytes.copy(next, change.at);
  return next;
}
