import type { CommandRow } from '../words/row.js';
import type { Words } from '../words/words.js';
import type { Context } from './context.js';

/** What the file of a command exports: words become options, options become effects. */
export interface LeafModule<Options> {
  /** Pure: `nowMs` is there for times that mean "ago". */
  readonly parse: (words: Words, nowMs: number) => Options;
  readonly run: (context: Context, options: Options) => Promise<void>;
}

/** A command ready to start. `insteadOfRun` is the seam of the tests: it gets the options and nothing happens. */
export interface Leaf {
  start(words: Words, context: Context, insteadOfRun?: (options: unknown) => void): Promise<void>;
}

/** Joins the two halves of a command's file. */
export function leaf<Options>(module: LeafModule<Options>): Leaf {
  return {
    async start(words, context, insteadOfRun) {
      const options = module.parse(words, context.clock.now());
      if (insteadOfRun === undefined) await module.run(context, options);
      else insteadOfRun(options);
    },
  };
}

export type Row = CommandRow<Leaf>;
