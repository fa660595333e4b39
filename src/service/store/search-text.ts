const MARK = /\p{M}+/gu;
const SEPARATORS = /[^\p{L}\p{N}]+/u;
/** Scripts that are written without spaces: each character is a word, and neighbours are found as a phrase. */
const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/gu;
const TERM_MAX_LENGTH = 64;

/** The words of a text as they are stored and looked for: folded in case, width and accents, cut at anything else. */
export function searchTermsOf(text: string): string[] {
  const folded = text.normalize('NFKD').toLowerCase().replace(MARK, '').replace(UNSPACED, ' $& ');
  return folded
    .split(SEPARATORS)
    .filter((term) => term !== '')
    .map((term) => term.slice(0, TERM_MAX_LENGTH));
}

/** What is asked for: each run between spaces is a phrase, and all of them must be there. */
export function searchPhrasesOf(text: string): string[][] {
  return text
    .split(/\s+/)
    .map(searchTermsOf)
    .filter((phrase) => phrase.length > 0);
}

/** Whether the words hold every phrase, its words next to each other. */
export function holdsPhrases(terms: readonly string[], phrases: readonly (readonly string[])[]): boolean {
  return phrases.every((phrase) =>
    terms.some((_, start) => phrase.every((word, offset) => terms[start + offset] === word)),
  );
}
