import { existsSync, mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { afterEach, describe, expect, it } from 'vitest';

import type { Clock } from '../../src/kit/clock.js';
import { createTestClock } from '../support/clock.js';
import { collect, startProgram } from './built-program.js';
import { runWords } from './captured-run.js';
import { envelope, type ScriptedService, startScript } from './scripted-service.js';

const SESSION = `sess_${'0'.repeat(26)}`;
const SENT = {
  call: `POST /sessions/${SESSION}/messages`,
  status: 201,
  reply: { message_id: `msg_${'0'.repeat(26)}`, sequence: 7 },
};

let service: ScriptedService | undefined;
afterEach(async () => {
  const open = service;
  service = undefined;
  await open?.close();
});

const failureIn = (err: string): { hint?: string; message: string } =>
  (JSON.parse(err.trim().split('\n').at(-1) ?? '') as { error: never }).error;

describe('--edit', () => {
  const editing = (script: string, options: { clock?: Clock; words?: string } = {}) => {
    const home = mkdtempSync(join(tmpdir(), 'asp-home-'));
    const editor = join(home, 'editor.sh');
    writeFileSync(editor, `#!/bin/sh\n${script}\n`, { mode: 0o700 });
    const { clock, words = '' } = options;
    const ran = runWords(`send ${SESSION} --edit --retries 0 ${words}`, {
      environment: {
        ...service?.environment,
        PATH: process.env['PATH'] ?? '',
        VISUAL: '',
        EDITOR: `${editor} ${home}`,
      },
      machine: { temporaryDirectory: home },
      ...(clock !== undefined && { clock }),
    });
    return { home, ran };
  };
  const draftIn = (home: string): string => {
    const [folder = ''] = readdirSync(home).filter((name) => name.startsWith('asp-edit-'));
    return join(home, folder, 'message.md');
  };

  it('starts an editor whose words are quoted', async () => {
    service = await startScript([SENT]);
    const home = mkdtempSync(join(tmpdir(), 'asp-home-'));
    const { code } = await runWords(`send ${SESSION} --edit`, {
      environment: {
        ...service.environment,
        PATH: process.env['PATH'] ?? '',
        VISUAL: '',
        EDITOR: `sh -c 'printf "two  blanks" > "$1"' editor`,
      },
      machine: { temporaryDirectory: home },
    });
    expect(code).toBe(0);
    expect(service.received[0]?.body).toMatchObject({ content: 'two  blanks' });
  });

  it('keeps an unsent text in a private file, and says where', async () => {
    const refused = { status: 404, reply: envelope('NOT_FOUND') };
    service = await startScript([
      { ...SENT, ...refused },
      { call: `GET /sessions/${SESSION}`, ...refused },
    ]);
    const { home, ran } = editing('printf "an hour of work\n" > "$2"');
    const { code, err } = await ran;
    expect(code).toBe(3);
    const path = draftIn(home);
    expect(err.split('\n')[0]).toBe(`Your text is in ${path}. To send it: -F ${path}.`);
    expect(readFileSync(path, 'utf8')).toBe('an hour of work\n');
    expect(statSync(path).mode & 0o077).toBe(0);
    expect(statSync(dirname(path)).mode & 0o077).toBe(0);
  });

  it('keeps the text if its outcome is unknown, and names the key; if it is too long; and if the editor fails', async () => {
    service = await startScript([{ ...SENT, status: 500, reply: envelope('INTERNAL_ERROR') }]);
    const broken = editing('echo text > "$2"', { words: '--json' });
    const { err } = await broken.ran;
    expect(failureIn(err).hint).toContain(`--idempotency-key ${service.received[0]?.key}`);
    expect(readFileSync(draftIn(broken.home), 'utf8')).toBe('text\n');
    const long = editing('head -c 300000 /dev/zero | tr "\\0" x > "$2"');
    expect((await long.ran).code).toBe(2);
    expect(statSync(draftIn(long.home)).size).toBe(300_000);
    const failed = editing('echo text > "$2"; exit 1', { words: '--json' });
    const failure = failureIn((await failed.ran).err);
    expect(failure.hint).toBe(`your text is in ${draftIn(failed.home)}.`);
    expect(readFileSync(draftIn(failed.home), 'utf8')).toBe('text\n');
  });

  it('has no deadline while the user writes', async () => {
    service = await startScript([SENT]);
    const clock = createTestClock();
    const { home, ran } = editing('touch "$1/open"; until [ -e "$1/go" ]; do sleep 0.02; done; echo late > "$2"', {
      clock,
    });
    await expect.poll(() => existsSync(join(home, 'open'))).toBe(true);
    clock.advance(24 * 60 * 60 * 1000);
    writeFileSync(join(home, 'go'), '');
    expect((await ran).code).toBe(0);
    expect(service.received[0]?.body).toEqual({ content: 'late' });
  });

  it('does not ask a user who cannot sign in for a text', async () => {
    service = await startScript([]);
    const environment = { ...service.environment, ASP_TOKEN: '', ASP_TOKEN_STORE: 'file', EDITOR: 'false' };
    const { code } = await runWords(`send ${SESSION} --edit`, { environment });
    expect(code).toBe(4);
  });

  it('sends the edited text without its last line feed, and keeps no file', async () => {
    const home = mkdtempSync(join(tmpdir(), 'asp-home-'));
    const editor = join(home, 'editor.sh');
    writeFileSync(editor, '#!/bin/sh\nls -l "$2" > "$1"\nprintf "two\\nlines\\n" > "$2"\n', { mode: 0o700 });
    const listed = join(home, 'listed');
    service = await startScript([SENT]);
    const environment = { ...service.environment, PATH: process.env['PATH'] ?? '', VISUAL: `${editor} ${listed}` };
    const machine = { temporaryDirectory: home };
    const { code } = await runWords(`send ${SESSION} --edit`, { environment, machine });
    expect(code).toBe(0);
    expect(service.received[0]?.body).toEqual({ content: 'two\nlines' });
    expect(readFileSync(listed, 'utf8')).toMatch(/^-rw------- /);
    expect(readdirSync(home).filter((name) => name.startsWith('asp-edit-'))).toEqual([]);
  });

  it('sends nothing if the editor fails, returns nothing, or does not exist', async () => {
    const interrupted = join(mkdtempSync(join(tmpdir(), 'asp-home-')), 'interrupted.sh');
    writeFileSync(interrupted, '#!/bin/sh\nkill -INT $$\n', { mode: 0o700 });
    const run = (editor: string) =>
      runWords(`send ${SESSION} --edit --json`, {
        environment: { ASP_PROFILE: 'http://127.0.0.1:9/v1', ASP_TOKEN: 'x', EDITOR: editor },
      });
    for (const [editor, said] of [
      ['false', 'The editor failed (exit code 1). Nothing was sent.'],
      ['true', 'The message is empty. Nothing was sent.'],
      [interrupted, 'The editor failed (SIGINT). Nothing was sent.'],
      ['/nonexistent/editor', "Could not start the editor '/nonexistent/editor'. Nothing was sent."],
    ] as const) {
      const { code, err } = await run(editor);
      expect({ code, message: failureIn(err).message }).toEqual({ code: 2, message: said });
    }
  });

  it('does not start vi where no one can type', async () => {
    const environment = { ASP_PROFILE: 'http://127.0.0.1:9/v1', ASP_TOKEN: 'x', PATH: process.env['PATH'] ?? '' };
    const { code, err } = await runWords(`send ${SESSION} --edit`, { environment, stdin: '' });
    expect(err).toContain('There is no terminal to edit on. Nothing was sent.');
    expect(code).toBe(2);
  });

  it('passes Ctrl-C to the editor, and keeps stdout for data', async () => {
    service = await startScript([SENT]);
    const home = mkdtempSync(join(tmpdir(), 'asp-home-'));
    const editor = join(home, 'editor.sh');
    // Sleeps longer than the program survives a signal sent only to it.
    const script = 'trap "" INT; echo drawn; kill -INT $PPID; sleep 1.5; echo written > "$1"';
    writeFileSync(editor, `#!/bin/sh\n${script}\n`, { mode: 0o700 });
    const environment = { ...service.environment, HOME: home, TMPDIR: home, EDITOR: editor };
    const ended = await collect(startProgram(['send', SESSION, '--edit', '-q'], environment));
    expect(ended).toEqual({ code: 0, signal: null, out: `${SENT.reply.message_id}\n`, err: 'drawn\n' });
    expect(service.received[0]?.body).toEqual({ content: 'written' });
  });
});
