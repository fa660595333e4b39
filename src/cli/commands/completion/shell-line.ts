/** A line of bash or fish up to the cursor. */
export interface Line {
  /** The words between the program and the cursor, without their quotes. */
  readonly before: readonly string[];
  /** The word at the cursor up to the cursor, without its quotes. */
  readonly typed: string;
  /** A file name is expected, regardless of the program: the word follows `>` or `<`. */
  readonly isPath: boolean;
  /** A value for that word in the form that the shell expects. */
  spell(value: string): string;
}

interface Word {
  text: string;
  /** Where bash begins to replace: after the last word-break character, or the open quote. */
  from: number;
  /** The quote that is still open. */
  quote: string;
  isRedirection: boolean;
}

const PLAIN = /[^\w@%+=:,./-]/g;
const SPECIAL: Readonly<Record<string, RegExp>> = { '"': /["$`\\]/g, "'": /[']/g };

/** Splits a line like the shell. Parts that only the shell can evaluate (`$variables`, `$(commands)`) stay as typed. */
export function readLine(shell: 'bash' | 'fish', line: string, breaks: string): Line {
  const args: Word[] = [];
  let word: Word | undefined;
  const begin = (isRedirection = false): Word => {
    const begun = { text: '', from: 0, quote: '', isRedirection };
    args.push(begun);
    return begun;
  };
  for (let at = 0; at < line.length; at += 1) {
    const character = line.charAt(at);
    const quote = word?.quote ?? '';
    const next = line.charAt(at + 1);
    if (quote === '' && /\s/.test(character)) word = undefined;
    else if (quote === '' && /[<>]/.test(character)) {
      if (word === undefined || (!word.isRedirection && !/^\d+$|^&$/.test(word.text))) word = begin(true);
      word.isRedirection = true;
      if (!/[<>&]/.test(next)) word = undefined;
    } else {
      word ??= begin();
      const escapes =
        quote === '' || (quote === '"' && /["$`\\]/.test(next)) || (shell === 'fish' && /['\\]/.test(next));
      if (character === '\\' && escapes && next !== '') {
        word.text += next;
        at += 1;
      } else if (character === quote) word.quote = '';
      else if (quote === '' && (character === '"' || character === "'")) {
        word.quote = character;
        word.from = word.text.length;
      } else {
        // bash keeps an @ with the word that it begins (rl_special_prefixes).
        if (quote === '' && character === '@' && breaks.includes('@')) word.from = word.text.length;
        word.text += character;
        if (quote === '' && character !== '@' && breaks.includes(character)) word.from = word.text.length;
      }
    }
  }
  const current = word ?? { text: '', from: 0, quote: '' };
  const earlier = word === undefined ? args : args.slice(0, -1);
  const plain = earlier.filter(({ isRedirection }, at) => !isRedirection && earlier[at - 1]?.isRedirection !== true);
  const named = plain.findIndex(({ text }) => /(^|\/)asp(\.js)?$/.test(text));
  const special = SPECIAL[current.quote] ?? PLAIN;
  return {
    before: plain.slice(Math.max(named, 0) + 1).map(({ text }) => text),
    typed: current.text,
    isPath: earlier.at(-1)?.isRedirection === true,
    // fish writes the quotes itself.
    spell: (value) => (shell === 'fish' ? value : value.slice(current.from).replace(special, '\\$&')),
  };
}
