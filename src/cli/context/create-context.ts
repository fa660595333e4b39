import { createOutput } from '../terminal/output.js';
import { createPrompts } from '../terminal/prompts.js';
import { isColoured } from '../terminal/style.js';
import type { Section } from '../words/help.js';
import type { Program } from '../words/row.js';
import type { ClosableContext, Surroundings } from './context.js';
import type { Globals } from './globals.js';
import { createIdentity } from './identity.js';
import type { Leaf } from './leaf.js';
import { createPlace } from './place.js';

/** The context of one command. Nothing is read, opened or asked before a command wants it. */
export function createContext(
  surroundings: Surroundings,
  globals: Globals,
  program: Program<Leaf>,
  overview: readonly Section[],
): ClosableContext {
  const { streams, environment, signal } = surroundings;
  const output = createOutput(streams, {
    format: globals.format,
    fields: globals.fields,
    isQuiet: globals.isQuiet,
    isVerbose: globals.isVerbose,
    isOutColoured: isColoured(globals.color, environment, streams.stdout.isTerminal),
    isErrColoured: isColoured(globals.color, environment, streams.stderr.isTerminal),
  });
  const prompts = createPrompts(streams, { mayAsk: globals.mayAsk, isYes: globals.isYes, signal });
  const place = createPlace(surroundings, globals, output);
  const identity = createIdentity(() => context, place.profile);
  const context: ClosableContext = {
    ...surroundings,
    globals,
    output,
    program,
    overview,
    prompts,
    ...place,
    ...identity,
  };
  return context;
}
