import { capitalized } from './format.js';

/** How many insertions, deletions, replacements and swaps of neighbors turn one word into the other. */
function distance(from: string, to: string): number {
  let before: number[] = [];
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= to.length; j += 1) {
      const cost = from[i - 1] === to[j - 1] ? 0 : 1;
      let best = Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + cost);
      if (i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1])
        best = Math.min(best, (before[j - 2] ?? 0) + 1);
      next.push(best);
    }
    before = row;
    row = next;
  }
  return row[to.length] ?? 0;
}

/** The candidates that were probably meant by `word`: the nearest, and others that are as near. */
export function suggest(word: string, candidates: Iterable<string>): string[] {
  const typed = word.toLowerCase().slice(0, 40);
  const near = [...new Set(candidates)]
    .map((candidate) => ({ candidate, apart: distance(typed, candidate.toLowerCase()) }))
    .filter(({ candidate, apart }) => apart <= 2 && apart / Math.max(typed.length, candidate.length) < 0.5);
  const nearest = Math.min(...near.map(({ apart }) => apart));
  return near
    .filter(({ apart }) => apart === nearest)
    .map(({ candidate }) => candidate)
    .sort()
    .slice(0, 3);
}

/** Asks whether the nearest candidate was meant; undefined if none is near. */
export function didYouMean(word: string, candidates: Iterable<string>, quote = ''): string | undefined {
  const [near] = suggest(word, candidates);
  return near && `did you mean ${quote}${near}${quote}?`;
}

/**
 * Refuses what is not an object, and an option that does not exist, which a program without types would not notice.
 * @throws TypeError with the nearest name
 */
export function requireKnownOptions(what: string, options: object, known: Readonly<Record<string, true>>): void {
  const names = Object.keys(known);
  if (typeof options !== 'object' || options === null)
    throw new TypeError(`${what} takes an object with these options: ${names.join(', ')}.`);
  for (const name of Object.keys(options)) {
    if (Object.hasOwn(known, name)) continue;
    const hint = didYouMean(name, names) ?? `the options are ${names.join(', ')}.`;
    throw new TypeError(`${what} has no option '${name}'. ${capitalized(hint)}`);
  }
}
