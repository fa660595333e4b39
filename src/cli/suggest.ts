/** How many insertions, deletions, replacements and swaps of neighbours lead from one word to the other. */
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

/** The candidates that `word` was probably meant to be, the nearest first. */
export function suggest(word: string, candidates: Iterable<string>): string[] {
  const typed = word.toLowerCase().slice(0, 40);
  return [...new Set(candidates)]
    .map((candidate) => ({ candidate, apart: distance(typed, candidate.toLowerCase()) }))
    .filter(({ candidate, apart }) => apart <= 2 && apart / Math.max(typed.length, candidate.length) < 0.5)
    .sort((a, b) => a.apart - b.apart || (a.candidate < b.candidate ? -1 : 1))
    .slice(0, 3)
    .map(({ candidate }) => candidate);
}
