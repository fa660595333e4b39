import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate, setTimeout } from 'node:timers/promises';
import { afterAll, describe, expect, it } from 'vitest';

import { makeDirectory } from '../../src/kit/private-file.js';
import { createSavedFile } from '../../src/kit/saved-file.js';

const folder = mkdtempSync(join(tmpdir(), 'asp-saved-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const read = (path: string): unknown => JSON.parse(readFileSync(path, 'utf8'));

describe('a saved file', () => {
  it('has each change when the call that waits for it returns, no matter how often others change it', async ({
    signal,
  }) => {
    const path = join(folder, 'busy.json');
    const values: Record<string, number> = {};
    const saved = createSavedFile(path, () => values);
    let isOver = false;
    const others = (async () => {
      for (let count = 0; !isOver && !signal.aborted; count += 1) {
        values['other'] = count;
        saved.change();
        void saved.written();
        await setImmediate();
      }
    })();
    for (let mine = 1; mine <= 20; mine += 1) {
      // It may come in the middle of a write.
      await setTimeout(1);
      values['mine'] = mine;
      saved.change();
      await saved.written();
      expect(read(path)).toMatchObject({ mine });
    }
    isOver = true;
    await others;
    await saved.written();
    expect(read(path)).toEqual(values);
  });

  it('rejects while it cannot be written, and the next call writes it', async () => {
    const path = join(folder, 'blocked.json');
    makeDirectory(join(path, 'inside'));
    const saved = createSavedFile(path, () => ({ mine: 1 }));
    saved.change();
    await expect(saved.written()).rejects.toMatchObject({ code: 'EISDIR' });
    await expect(saved.written()).rejects.toMatchObject({ code: 'EISDIR' });
    rmSync(path, { recursive: true });
    await saved.written();
    expect(read(path)).toEqual({ mine: 1 });
  });
});
