import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { ENDING } from './cases.js';
import { type Stage, startStage } from './stage.js';

/** Lists the members of a document and their types, one line each. The first item of a list stands for all. */
function membersOf(value: unknown, path = ''): string[] {
  if (Array.isArray(value)) return value.length === 0 ? [`${path}[]`] : membersOf(value[0], `${path}[]`);
  if (typeof value !== 'object' || value === null) return [`${path} ${value === null ? 'null' : typeof value}`];
  return Object.entries(value)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .flatMap(([name, member]) => membersOf(member, `${path}.${name}`));
}

describe('the documents that commands print with --json', () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await startStage();
  });
  afterAll(() => stage.close());

  // After a change, run `npx vitest run --project sqlite test/cli/every-command --update`. Only ever add fields.
  it('have the recorded members', async () => {
    const shapes: string[] = [];
    for (const one of ENDING) {
      if (one.isFree === true) continue;
      const { out } = await stage.run(one, ['--json']);
      const [first = ''] = out.split('\n');
      shapes.push(`asp ${one.line}`, ...membersOf(JSON.parse(first)).map((line) => `  ${line}`), '');
    }
    await expect(shapes.join('\n')).toMatchFileSnapshot('documents.txt');
  });
});
