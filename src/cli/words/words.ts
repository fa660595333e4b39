import { UsageError } from '../terminal/cli-error.js';
import { readCount, readDuration } from './values.js';

/** The options and arguments of one command, read; options by their long name, a negation with its `no-`. */
export interface Words {
  readonly arguments: readonly string[];
  flag(name: string): boolean;
  text(name: string): string | undefined;
  texts(name: string): readonly string[];
  /** In milliseconds. */
  duration(name: string): number | undefined;
  count(name: string, range?: { min?: number; max?: number }): number | undefined;
  /** Refuses two options that contradict each other. */
  refuseBoth(first: string, second: string): void;
}

export type WordValue = boolean | string | readonly string[];

export function createWords(values: ReadonlyMap<string, WordValue>, positional: readonly string[]): Words {
  const text = (name: string): string | undefined => {
    const value = values.get(name);
    return typeof value === 'string' ? value : undefined;
  };
  const isGiven = (name: string): boolean => {
    const value = values.get(name);
    return value !== undefined && value !== false && !(Array.isArray(value) && value.length === 0);
  };
  return {
    arguments: positional,
    flag: (name) => values.get(name) === true,
    text,
    texts(name) {
      const value = values.get(name);
      return typeof value === 'object' ? value : [];
    },
    duration(name) {
      const value = text(name);
      return value === undefined ? undefined : readDuration(`--${name}`, value);
    },
    count(name, range) {
      const value = text(name);
      return value === undefined ? undefined : readCount(`--${name}`, value, range);
    },
    refuseBoth(first, second) {
      if (isGiven(first) && isGiven(second))
        throw new UsageError(`--${first} and --${second} cannot be used together.`);
    },
  };
}
