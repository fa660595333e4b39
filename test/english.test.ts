import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type Node, parseSync } from 'oxc-parser';
import { describe, expect, it } from 'vitest';

import { walk } from './support/source-facts.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const read = (path: string): string => readFileSync(`${ROOT}${path}`, 'utf8');

/** Matches a clause used as the subject: "What was said is not read again", "Who reads must wait". */
const VERB =
  '(?:is|are|was|were|has|have|had|do|does|did|must|may|can|cannot|could|will|goes|gets?|comes?|came|waits?|stays?|counts?|costs?|ends?|begins?|says?|reads?|holds?|fails?|needs?|stands?|works?|runs?)';
const CLAUSE_AS_SUBJECT = new RegExp(String.raw`^(?:What|Who) (?:[^?.;:,]*? )?${VERB} \w[^?.;:,]* ${VERB}\b`);

/**
 * Phrases that no native speaker would say to a colleague, and what to write instead. To catch another one, add a line. A
 * space also matches a line break. `^` is the beginning of a sentence.
 */
const AVOID: readonly (readonly [phrase: RegExp, advice: string])[] = [
  [/\bwho(?:so)?ever\b/i, 'name the person or thing: "anyone who", "the program that", "the first one"'],
  [/\bwhom(?:ever)?\b/i, '"who", "that", or name the person or thing'],
  [/(?<![@\w])nobody\b(?!\.\w)/i, '"no one", or make the sentence positive'],
  [/\b(?:any|every|some)body\b/i, '"anyone", "everyone", "someone"'],
  [/(?<!there )\bis no\b(?! longer| more| less| fewer| later)/i, '"is not a", or "There is no"'],
  [/(?<!there )\bare no\b(?! longer| more| less| fewer)/i, '"are not", or "There are no"'],
  [/\btold\b(?! apart)/i, 'say who says what: "gets", "reports", "asks", "knows"'],
  [/\b(?:is|are|was|were|be|been) said\b/i, 'say who says it: "the log says"'],
  [/\b(?:unless|as|if|where|once) said\b/i, '"unless set", "by default", "as described"'],
  [/\bso (?:many|much|often)\b(?! as)(?! more)/i, 'a number and its unit: "the last N events", "this long"'],
  [/\bfor ever\b/i, '"forever"'],
  [/\bany more\b(?! than| of| \w+s\b)/i, '"anymore", or "no longer"'],
  [CLAUSE_AS_SUBJECT, 'make the subject a person or a named thing, not a clause'],
  [/\bstands? (?:in|at|on|there|beside|below|above|behind|before)\b/i, '"is in", "is at"'],
  [/\bonce an? (?:try|call|round|run|message|session|process|line)\b/i, '"once per try"'],
  [/\banew\b/i, '"again"'],
  [/\b(?:be|was|is|been) had\b/i, '"available", "could not load"'],
  [/\bin work\b/i, '"in progress"'],
  [/\bgo(?:es)? on by (?:itself|themselves)\b/i, '"continues on its own", "recovers on its own"'],
  [/\btaken for (?:a|an|the|gone|dead)\b/i, '"treated as", "considered"'],
  [/\bin silence\b/i, '"silently"'],
  [/\bmend(?:ed|s|ing)?\b/i, '"fix"'],
  [/\bthe like of\b/i, '"like"'],
  [/\bby hand of\b/i, '"by"'],
  [/(?<![.\w])(?:door)?bells?\b/i, '"notification"'],
  [/\b(?:turnstile|roll call|farewell)s?\b/i, '"keyed mutex", "reconciliation", "close"'],
  [/\bstrays?\b/i, '"orphan"'],
  [/\bthat there (?:is|are)\b(?! \w)/i, '"that exist"'],
  [/\bof no (?:use|account)\b/i, '"useless", "invalid"'],
  [/(?<!there )\bis nothing to\b/i, '"is not a"'],
  [/\bhowever (?:long|many|much|often|large|small|wide)\b/i, '"no matter how long"'],
  [/\b(?:the|this|your|personal) data (?:are|were|have)\b|\bthese data\b/i, '"data is", "this data"'],
  [/\b(?:what|whatever) (?:became|becomes) of\b/i, 'name it: "how far it got", "its result", "its delivery"'],
  [
    /\b(?:goes|went|go) on (?:waiting|serving|with|when|while|after|until|once|in|as)\b/i,
    '"continues", "keeps serving"',
  ],
  [/\b(?:how to|others|reads|tails|the tail|the run|it|they) (?:goes|go) on\b/i, '"continue"'],
  [/\b(?:is|are) away\b/i, '"is down", "is unavailable"'],
  [/\bby (?:itself|themselves)\b/i, '"on its own"'],
  [/\b(?:that|which|who) (?:is|are) none\b/i, '"that is not one", "invalid"'],
  [/\b(?:be|been|is|are|was|were) waited for\b/i, 'say who waits: "asp waits for it"'],
  [/\b(?:goes|went|leads?|lead|led) nowhere\b/i, 'say what happens: "is not sent", "is unknown"'],
  [/\btells? of\b/i, '"reports", "records"'],
  [/\bthe (?:latest|newest|oldest) first\b/i, '"latest first"'],
  [/(?<![\w-])one (?:line|row|page|document|item|message) an? \w+/i, '"one line per event"'],
  [/\bpass(?:es|ed)? over\b/i, '"skips"'],
  [/\ban? [\w-]+ of (?:its|one's|our|their|his|her|my|a test's|the tests') own\b/i, '"a separate …", "its own …"'],
  [/\bof a test's own\b/i, '"for one test"'],
  [/\b(?:clock that is )?turned by hand\b/i, '"a clock that the test moves"'],
  [/\b(?:one|each) in (?:so|as) many\b/i, '"one in N"'],
  [/\bnow and then\b/i, '"sometimes", "occasionally"'],
  [/\bmeans to be\b/i, 'say what it is'],
  [/\bwithout order\b/i, '"as a crash would"'],
  [/\bhears? of\b/i, '"is notified of", "gets"'],
  [/\blets? go what\b/i, '"releases"'],
  [/\bin the same breath\b/i, '"together", "at once"'],
  [/\bbefore (?:its|the) eyes\b/i, '"that it could see"'],
  [/\bthe clock on the wall\b/i, '"the wall clock"'],
  [/\b(?:leads?|led) (?:through|them|it|there|names) to\b/i, '"maps", "sends", "follows"'],
  [/(?<=\w )(?<!\b(?:and|but) )meanwhile\b/, '"in the meantime", "since", "by then"'],
  [/\bonly a part\b/i, '"only part of it"'],
  [/\bwithout end\b/i, '"forever", "endless"'],
  [/\bst(?:ands?|ood) still\b/i, '"stops", "does not move"'],
  [/\b(?:is|are|was|were) of (?:the same|your|another|a different) owner\b/i, '"has the same owner"'],
  [/\bvery many\b/i, '"a lot of"'],
  [/\b(?:has|have|had) come(?! (?:back|up)\b)/i, '"arrived"'],
  [/\btakes? no part\b/i, '"is not in"'],
  [/, also (?:if|when|after|by|in|at|on)\b/, '"even if", "including"'],
  [/\bw[io]ns? over\b/i, '"overrides", "takes precedence over"'],
  [/(?<![.\w]|code )beside\b/i, '"next to", "with", "besides", "alongside"'],
  [
    /(?<![/'`"])\b(?:acknowledgement|behaviour|cancelled|colour|favour|honour|judgement|neighbour|spelt|towards)s?\b/i,
    'the American spelling',
  ],
];

/** Lists of common passwords are not prose. */
const WORD_LISTS: ReadonlySet<string> = new Set(['src/service/web/passwords.ts']);

/** This file quotes what it bans. */
const EXAMPLES: ReadonlySet<string> = new Set(['test/english.test.ts']);

/** A piece of prose that begins on this line of a file. */
interface Prose {
  readonly line: number;
  readonly text: string;
}

const lineAt = (text: string, position: number): number => text.slice(0, position).split('\n').length;

/** What may separate two words of prose: spaces, line breaks, and the markers at the start of a comment's next line. */
const GAP = String.raw`(?:\s|\*|//)+`;
const SENTENCE = String.raw`(?<=^[\s/*]*|[.;:!?]${GAP})`;

const COMPILED = AVOID.map(([phrase, advice]) => {
  const source = phrase.source.replace(/^\^/, SENTENCE).replaceAll(' ', GAP);
  return { pattern: new RegExp(source, `g${phrase.flags}`), advice };
});

function findPhrases(path: string, prose: readonly Prose[]): string[] {
  return prose.flatMap(({ line, text }) =>
    COMPILED.flatMap(({ pattern, advice }) =>
      [...text.matchAll(pattern)].map((match) => {
        const at = line + lineAt(text, match.index) - 1;
        return `${path}:${at}: "${match[0].replace(/[\s*/]+/g, ' ').trim()}": write ${advice}`;
      }),
    ),
  );
}

interface SourceProse {
  readonly comments: readonly Prose[];
  readonly strings: readonly Prose[];
  readonly titles: readonly Prose[];
}

/** Returns the text of a string or template literal, with `…` for computed parts. */
function textOf(node: Node): string | undefined {
  if (node.type === 'Literal') return typeof node.value === 'string' ? node.value : undefined;
  return node.type === 'TemplateLiteral' ? node.quasis.map(({ value }) => value.raw).join('…') : undefined;
}

function proseOf(source: string): SourceProse {
  const { program, comments } = parseSync('source.ts', source);
  const strings: Prose[] = [];
  const titles: Prose[] = [];
  walk(program, (node, parent) => {
    const text = textOf(node);
    const isModule = parent !== undefined && /^(?:Import|Export)/.test(parent.type);
    if (text !== undefined && /\s/.test(text) && !isModule) strings.push({ line: lineAt(source, node.start), text });
    if (node.type !== 'CallExpression' || !/^(?:it|test|describe)\b/.test(source.slice(node.start, node.end))) return;
    const [title] = node.arguments;
    const titleText = title && textOf(title);
    if (title !== undefined && titleText !== undefined)
      titles.push({ line: lineAt(source, title.start), text: titleText });
  });
  return { comments: paragraphsOf(source, comments), strings, titles };
}

/** Joins consecutive one-line comments into one text. */
function paragraphsOf(source: string, comments: readonly { start: number; end: number }[]): Prose[] {
  const spans: { start: number; end: number }[] = [];
  for (const { start, end } of comments) {
    const last = spans.at(-1);
    if (last !== undefined && /^\s*$/.test(source.slice(last.end, start))) last.end = end;
    else spans.push({ start, end });
  }
  return spans.map(({ start, end }) => ({ line: lineAt(source, start), text: source.slice(start, end) }));
}

const filesBelow = (folder: string, ending: RegExp): string[] =>
  readdirSync(`${ROOT}${folder}`, { recursive: true, encoding: 'utf8' })
    .filter((path) => ending.test(path))
    .map((path) => `${folder}/${path}`);
const wholeFile = (path: string): string[] => findPhrases(path, [{ line: 1, text: read(path) }]);

describe('The English', () => {
  it('of README and docs is plain', () => {
    const pages = ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md', 'bench/README.md'];
    expect([...pages, ...filesBelow('docs', /\.md$/)].flatMap(wholeFile)).toEqual([]);
  });

  it('of the man pages is plain', () => {
    expect(filesBelow('man', /\.1$/).flatMap(wholeFile)).toEqual([]);
  });

  it('of the examples is plain', () => {
    expect(filesBelow('examples', /\.mjs$/).flatMap(wholeFile)).toEqual([]);
  });

  it.each(['agent', 'cli', 'client', 'kit', 'library', 'service', 'testing', 'wire'])(
    'of help, errors, pages and comments in src/%s is plain',
    (folder) => {
      const found = filesBelow(`src/${folder}`, /\.(?:ts|js|css)$/).flatMap((path) => {
        if (WORD_LISTS.has(path)) return [];
        if (!path.endsWith('.ts')) return wholeFile(path);
        const { comments, strings } = proseOf(read(path));
        return findPhrases(path, [...comments, ...strings]);
      });
      expect(found).toEqual([]);
    },
  );

  it.each(['test', 'scripts', 'bench'])('of comments and test titles in %s is plain', (folder) => {
    const found = filesBelow(folder, /\.(?:ts|mjs)$/).flatMap((path) => {
      if (EXAMPLES.has(path)) return [];
      const { comments, titles } = proseOf(read(path));
      return findPhrases(path, [...comments, ...titles]);
    });
    expect(found).toEqual([]);
  });
});

describe('The check of phrases', () => {
  it('names file, line, phrase and advice', () => {
    const source = [
      "import x from './nobody.js';",
      '/** It is',
      ' * no name. */',
      "const said = 'Tell whoever asks.';",
      '',
    ].join('\n');
    const { comments, strings } = proseOf(source);
    expect(findPhrases('a.ts', [...comments, ...strings])).toEqual([
      'a.ts:2: "is no": write "is not a", or "There is no"',
      'a.ts:4: "whoever": write name the person or thing: "anyone who", "the program that", "the first one"',
    ]);
  });
});
