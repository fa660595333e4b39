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
