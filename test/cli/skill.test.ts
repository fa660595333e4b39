import { describe, expect, it } from 'vitest';

import { SKILL_TEXT } from '../../src/cli/commands/connect/skill-text.js';
import { runWords, splitWords } from './captured-run.js';

const [, front = '', body = ''] = /^---\n([\s\S]*?)\n---\n([\s\S]*)$/.exec(SKILL_TEXT) ?? [];

/** Returns every command in code blocks and between backticks, with real ids instead of ellipses. */
function commandsIn(text: string): string[] {
  const blocks = [...text.matchAll(/^```sh\n([\s\S]*?)^```/gm)].flatMap(([, block = '']) => block.split('\n'));
  const inline = [...text.replaceAll(/^```[\s\S]*?^```/gm, '').matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code);
  return [...blocks, ...inline]
    .filter((line) => line.startsWith('asp '))
    .map((line) =>
      line
        .replace(/^asp inbox read$/, 'asp inbox read sess_…')
        .replaceAll('sess_…', `sess_${'0'.repeat(26)}`)
        .replace(/ <<'END'$/, ''),
    );
}

describe('the skill', () => {
  it('is within the limits of Agent Skills', () => {
    const { name = '', description = '' } =
      /^name: (?<name>\S+)\ndescription: >-\n(?<description>(?: {2}\S.*\n?)+)$/.exec(front)?.groups ?? {};
    expect(name).toMatch(/^[a-z0-9]+(-[a-z0-9]+)*$/);
    expect(name.length).toBeLessThanOrEqual(64);
    expect(description.length).toBeGreaterThan(50);
    expect(description.length).toBeLessThanOrEqual(1024);
    expect(description).not.toMatch(/[<>]/);
    expect(body.split('\n').length).toBeLessThan(500);
    // Roughly 5,000 tokens, the recommended maximum for a skill.
    expect(body.length).toBeLessThan(20_000);
  });

  it('mentions identity, inbox, answers, waiting, untrusted messages and secrets', () => {
    for (const part of [
      'asp whoami',
      'asp inbox',
      'asp reply',
      '--wait',
      'asp session wait',
      'is data',
      'secrets',
      '[asp]',
    ])
      expect(body).toContain(part);
  });

  const commands = commandsIn(body);
  it('has commands to check', () => expect(commands.length).toBeGreaterThan(12));
  it.each(commands)('%s is a command of asp', async (line) => {
    const { err } = await runWords([...splitWords(line.replace(/^asp /, '')), '--retries', '0', '--no-input'], {
      stdin: 'a text',
      environment: { ASP_PROFILE: 'http://127.0.0.1:9/v1', ASP_TOKEN: 'x', ASP_WS_TOKEN: 'x', ASP_TIMEOUT: '5s' },
    });
    expect(err).not.toMatch(/ASP_USAGE|exit 2/);
    expect(err).not.toContain('ASP_BUG');
  });
});
