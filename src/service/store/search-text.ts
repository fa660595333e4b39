const MARK = /\p{M}+/gu;
const SEPARATORS = /[^\p{L}\p{N}]+/u;
/** Scripts that are written without spaces: each character is a word, and neighbours are found as a phrase. */
const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/gu;
const IS_UNSPACED = new RegExp(`^${UNSPACED.source}$`, 'u');
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

/**
 * The words by which a text is found, each once. Two neighbours of a script without spaces are one too: else a word
 * of two characters would be looked for among all texts that have both somewhere.
 */
export function wordsToIndex(terms: readonly string[]): string[] {
  return [...new Set([...terms, ...pairsOf(terms)])];
}

/** The words that every text with these phrases has; they may be apart in it. */
export function wordsToFind(phrases: readonly (readonly string[])[]): string[] {
  const words = phrases.flatMap((phrase) => {
    const pairs = pairsOf(phrase);
    return [...pairs, ...phrase.filter((term) => !pairs.some((pair) => pair.includes(term)))];
  });
  return [...new Set(words)];
}

function pairsOf(terms: readonly string[]): string[] {
  return terms.flatMap((term, index) => {
    const next = terms[index + 1];
    return next !== undefined && IS_UNSPACED.test(term) && IS_UNSPACED.test(next) ? [term + next] : [];
  });
}
