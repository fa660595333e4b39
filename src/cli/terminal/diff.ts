/** The lines around which both texts are the same, like `diff -U0`. */
export function formatDiff(before: string, after: string): string {
  const splitLines = (text: string): string[] => (text === '' ? [] : text.replace(/\n$/, '').split('\n'));
  const [old, now] = [splitLines(before), splitLines(after)];
  let start = 0;
  while (start < Math.min(old.length, now.length) && old[start] === now[start]) start += 1;
  let end = 0;
  while (end < Math.min(old.length, now.length) - start && old.at(-1 - end) === now.at(-1 - end)) end += 1;
  const lines = (list: readonly string[], sign: string): string[] =>
    list.slice(start, list.length - end).map((line) => `${sign}${line}`);
  return [...lines(old, '-'), ...lines(now, '+')].join('\n');
}
