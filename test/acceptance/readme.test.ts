import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { createHome, type Home, missing, type Running, type ServiceProcess, startServe } from './program.js';

const README = readFileSync(fileURLToPath(new URL('../../README.md', import.meta.url)), 'utf8');
const noJq = missing('jq');

interface Step {
  command: string;
  /** The output, line by line; `…` matches anything. */
  shows: string[];
}

/** The commands of all console blocks, each with the output that the page shows. */
const STEPS: Step[] = [...README.matchAll(/^```console\n([\s\S]*?)^```$/gm)].flatMap(([, block = '']) =>
  block
    .split(/^\$ /m)
    .slice(1)
    .map((part) => {
      const [command = '', ...shows] = part.trimEnd().split('\n');
      return { command, shows };
    }),
);

const patternOf = (line: string): RegExp =>
  new RegExp(
    `^${line
      .split('…')
      .map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
      .join('.*')}$`,
  );

describe('README › every transcript is what the program prints', () => {
  let home: Home;
  let service: ServiceProcess;
  let shell: Running;

  beforeAll(async () => {
    home = createHome();
    service = await startServe(home, ['--demo']);
    shell = home.spawn('bash', ['--norc'], { input: { isOpen: true } });
  });
  afterAll(async () => {
    shell.kill('SIGKILL');
    await service.stop();
    await home.dispose();
  });

  /** Runs a line in the shared shell and returns its stdout, or its stderr if stdout is empty. */
  const run = async (command: string, number: number): Promise<string[]> => {
    const before = { out: shell.stdout().length, err: shell.stderr().length };
    shell.child.stdin?.write(`${command}\necho "[step ${number}]"\n`);
    await shell.until('stdout', new RegExp(`\\[step ${number}\\]\\n`));
    const out = shell.stdout().slice(before.out).replace(`[step ${number}]\n`, '');
    return (out === '' ? shell.stderr().slice(before.err) : out).split('\n').filter((line) => line !== '');
  };

  it('has transcripts', () => {
    expect(STEPS.length).toBeGreaterThan(10);
    expect(STEPS[0]?.command).toBe('asp serve --demo');
  });

  for (const [number, { command, shows }] of STEPS.slice(1).entries())
    it.skipIf(command.includes('jq') && noJq !== undefined)(`$ ${command}`, async () => {
      const lines = await run(command, number);
      if (shows.length === 0) return;
      expect(lines).toHaveLength(shows.length);
      for (const [index, line] of shows.entries()) expect(lines[index]).toMatch(patternOf(line));
    });
});
