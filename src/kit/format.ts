/** A size for people, rounded: `512 B`, `3 KB`, `1.5 MB`. A KB is 1,024 bytes. Exact limits are in KiB and MiB instead. */
export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 ** 2) return `${Math.ceil(bytes / 1024)} KB`;
  const [size, unit] = bytes < 1024 ** 3 ? [bytes / 1024 ** 2, 'MB'] : [bytes / 1024 ** 3, 'GB'];
  return `${size.toFixed(1).replace(/\.0$/, '')} ${unit}`;
}

/** A number of things, for people: `1 session`, `3 sessions`. The plural of the noun must end in `s`. */
export const formatQuantity = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;

/** A sentence or a name that begins with a capital letter. */
export const capitalized = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;

/** A sentence that ends with a period, unless it already ends like one. */
export const withPeriod = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`);

/** What an error says, or whatever else was thrown. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** The code of an error, such as `ENOENT`; empty if it has none. */
export const codeOf = (error: unknown): string => (error instanceof Error && 'code' in error ? String(error.code) : '');

/** A name in PascalCase as words: `CommaExpected` is `comma expected`. */
export function toWords(name: string): string {
  return name.replace(/(?!^)[A-Z]/g, ' $&').toLowerCase();
}

/** Arguments quoted for a POSIX shell. */
export function quoteArgs(args: readonly string[]): string {
  return args.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(' ');
}
