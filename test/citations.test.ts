import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const read = (path: string): string => readFileSync(`${ROOT}${path}`, 'utf8');

/**
 * Returns what a citation of the contract may name: a heading, or a bold name below it: `Live delivery, close codes`.
 */
function placesOf(contract: string): Set<string> {
  const places = new Set<string>();
  for (const section of contract.split(/^## /m).slice(1)) {
    const heading = section.slice(0, section.indexOf('\n')).trim();
    places.add(heading);
    for (const [, name = ''] of section.matchAll(/\*\*([^*]+)\*\*/g)) places.add(`${heading}, ${name.toLowerCase()}`);
  }
  return places;
}

function decisionsOf(decisions: string): Set<string> {
  return new Set([...decisions.matchAll(/^## (D-\d+):/gm)].map(([, number = '']) => number));
}

interface Cited {
  readonly wire: readonly string[];
  readonly decisions: readonly string[];
}

/** A citation may continue on the next line of its comment. */
function citedIn(source: string): Cited {
  const text = source.replace(/\n\s*(?:\*|\/\/) ?/g, ' ');
  return {
    wire: [...text.matchAll(/\bwire: ([A-Z0-9][^;)]*)[;)]/g)].map(([, place = '']) => place.trim()),
    decisions: [...text.matchAll(/\bD-\d+\b/g)].map(([number]) => number),
  };
}

const places = placesOf(read('docs/contract.md'));
const everyDecision = readdirSync(`${ROOT}docs/decisions`)
  .map((name) => read(`docs/decisions/${name}`))
  .join('\n');
const decisions = decisionsOf(everyDecision);
const files = ['src', 'test', 'scripts', 'bench'].flatMap((folder) =>
  readdirSync(`${ROOT}${folder}`, { recursive: true, encoding: 'utf8' })
    .filter((path) => /\.(ts|mjs)$/.test(path) && !path.endsWith('citations.test.ts'))
    .map((path) => `${folder}/${path}`),
);
const cited = files.map((path) => ({ path, ...citedIn(read(path)) }));

describe('what the code cites', () => {
  it('of the contract is a heading there, or a name below one', () => {
    const lost = cited.flatMap(({ path, wire }) =>
      wire.filter((place) => !places.has(place)).map((at) => `${path}: ${at}`),
    );
    expect(lost).toEqual([]);
    expect(cited.flatMap(({ wire }) => wire).length).toBeGreaterThan(20);
  });

  it('of the decisions is a heading there', () => {
    const lost = cited.flatMap(({ path, decisions: numbers }) =>
      numbers.filter((number) => !decisions.has(number)).map((number) => `${path}: ${number}`),
    );
    expect(lost).toEqual([]);
    expect(cited.flatMap(({ decisions: numbers }) => numbers).length).toBeGreaterThan(20);
  });

  it('are found across line breaks, and when two are together', () => {
    expect(citedIn('/** One (wire: Live\n * delivery, close codes; spec: Events) and (D-01,\n * D-02). */')).toEqual({
      wire: ['Live delivery, close codes'],
      decisions: ['D-01', 'D-02'],
    });
    expect(placesOf('## One\n- **Some Thing**: x\n## Two\n')).toEqual(new Set(['One', 'One, some thing', 'Two']));
    expect(decisionsOf('## D-01: x\nD-02\n')).toEqual(new Set(['D-01']));
  });
});

describe('The decisions', () => {
  it('have each number once', () => {
    const numbers = [...everyDecision.matchAll(/^## (D-\d+):/gm)].map(([, number]) => number);
    expect(numbers.length).toBeGreaterThan(170);
    expect(numbers.filter((number, index) => numbers.indexOf(number) !== index)).toEqual([]);
  });

  it('each say whether they still apply', () => {
    const without = everyDecision
      .split(/^## /m)
      .slice(1)
      .filter((text) => !/^[^\n]+\n\nStatus: (accepted|superseded by [^\n]+)\b/.test(text))
      .map((text) => text.split('\n', 1)[0]);
    expect(without).toEqual([]);
  });

  it('are all listed in the index of topics', () => {
    const index = read('docs/decisions/README.md');
    for (const name of readdirSync(`${ROOT}docs/decisions`).filter((file) => file !== 'README.md'))
      expect(index).toContain(`](${name})`);
  });
});
