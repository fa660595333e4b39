import { CliError } from '../errors.js';

/** One place that was asked for an answer, in the order of asking. `asp whoami --explain` prints them. */
export interface Layer {
  readonly question: 'profile' | 'agent' | 'credential';
  /** Where: `--as`, `ASP_AGENT`, the path of a file. */
  readonly place: string;
  /** What it said; null: nothing. Never a secret. */
  readonly said: string | null;
  readonly isChosen: boolean;
}

/** A place and what it says. Later places are not asked once one has answered. */
export interface Candidate<Value> {
  readonly place: string;
  readonly ask: () => Value | undefined | Promise<Value | undefined>;
  readonly show?: (value: Value) => string;
}

/** Asks one place after the other; every place is recorded, also those that were not asked any more. */
export async function choose<Value>(
  question: Layer['question'],
  candidates: readonly Candidate<Value>[],
): Promise<{ value: Value | undefined; place: string | undefined; layers: readonly Layer[] }> {
  const layers: Layer[] = [];
  let chosen: { value: Value; place: string } | undefined;
  for (const { place, ask, show = String } of candidates) {
    const value = chosen === undefined ? await ask() : undefined;
    const isChosen = value !== undefined && chosen === undefined;
    if (isChosen) chosen = { value, place };
    layers.push({ question, place, said: value === undefined ? null : show(value), isChosen });
  }
  return { value: chosen?.value, place: chosen?.place, layers };
}

/** Asks every place, also after one has answered or failed: what cannot be used is told in its place. */
export async function survey<Value>(
  question: Layer['question'],
  candidates: readonly Candidate<Value>[],
): Promise<readonly Layer[]> {
  const layers: Layer[] = [];
  let isSettled = false;
  for (const { place, ask, show = String } of candidates) {
    let said: string | null = null;
    let isChosen = false;
    try {
      const value = await ask();
      if (value !== undefined) said = show(value);
      isChosen = said !== null && !isSettled;
    } catch (error) {
      said = `cannot be used: ${reasonOf(error)}`;
    }
    isSettled ||= said !== null;
    layers.push({ question, place, said, isChosen });
  }
  return layers;
}

function reasonOf(error: unknown): string {
  if (error instanceof CliError && error.why !== undefined) return error.why;
  return error instanceof Error ? error.message : String(error);
}
