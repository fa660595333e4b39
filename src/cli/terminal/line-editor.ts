import { createAsyncQueue } from '../../kit/async-queue.js';
import type { Streams } from './streams.js';

/** A person types lines at a terminal while other text comes in. */
export interface LineEditor {
  /** The lines as they are typed; they end with Ctrl-D on an empty line. */
  lines(): AsyncIterable<string>;
  /** The number of typed lines that have not been read yet. */
  readonly waiting: number;
  /** Resolves once no more can be typed. */
  readonly ended: Promise<void>;
  /** Shows whole lines of text without touching what is being typed. It must be safe for a terminal. Resolves once it is shown. */
  print(text: string): Promise<void>;
  close(): void;
}

interface EditorSettings {
  /** Nothing is redrawn: text that arrives while a line is being typed waits until the line is sent. */
  readonly isAccessible: boolean;
  readonly prompt: string;
  /** Handles Ctrl-C: while a line is being edited, the terminal sends it to us as a key. */
  readonly interrupt: () => void;
}

/** Opens an editor at the terminal that stdin and stderr are. Close it, or the terminal stays without its own line editing. */
export async function openLineEditor(streams: Streams, settings: EditorSettings): Promise<LineEditor> {
  const { createInterface } = await import('node:readline');
  const { isAccessible } = settings;
  const prompt = isAccessible ? '' : settings.prompt;
  const editor = createInterface({ input: process.stdin, output: process.stderr, terminal: true, prompt });
  editor.on('SIGINT', settings.interrupt);
  const typed = createAsyncQueue<string>();
  editor.on('line', typed.push);
  const held: { readonly text: string; readonly shown: () => void }[] = [];
  let isClosed = false;
  const show = async (text: string): Promise<void> => streams.stdout.write(`${text}\n`);
  const showHeld = async (): Promise<void> => {
    while (editor.line === '' || isClosed) {
      const next = held.shift();
      if (next === undefined) return;
      await show(next.text);
      next.shown();
    }
  };
  // At once, so that input typed while a line is being sent also follows a prompt.
  editor.on('line', () => editor.prompt(true));
  if (isAccessible) {
    editor.on('line', () => void showHeld());
    // A line that was deleted again frees its space, too; the key is handled after this event.
    process.stdin.on('keypress', () => setImmediate(() => void showHeld()));
  }
  // The editor stops reading when the terminal suspends the program, and leaves it to us to go on.
  editor.on('SIGCONT', () => editor.prompt(true));
  // In a wider terminal the line takes fewer rows than when it was drawn. The editor would still move up that far, and
  // erase the text above. This listener comes before its own, which draws the line again.
  const keepAbove = (): void => {
    const { prevRows = 0 } = editor as { prevRows?: number };
    Object.assign(editor, { prevRows: Math.min(prevRows, editor.getCursorPos().rows) });
  };
  process.stderr.prependListener('resize', keepAbove);
  // Once, with Ctrl-D or by `close`.
  editor.on('close', () => {
    isClosed = true;
    process.stderr.off('resize', keepAbove);
    process.stdin.pause();
    typed.end();
    // The prompt stays, and later output begins on a new line.
    if (isAccessible) void showHeld();
    else process.stderr.write('\n');
  });
  const ended = new Promise<void>((resolve) => editor.on('close', resolve));
  editor.prompt();
  return {
    ended,
    lines: () => typed,
    get waiting() {
      return typed.size;
    },
    async print(text) {
      if (isAccessible)
        return new Promise((shown) => {
          held.push({ text, shown });
          void showHeld();
        });
      if (isClosed || !streams.stdout.isTerminal) return show(text);
      // All in one turn of the event loop, so that no key comes in between: prints the text in place of the line being
      // typed, then the line again below. The editor would otherwise move up to where it last drew.
      const { rows } = editor.getCursorPos();
      const up = rows === 0 ? '' : `\u001b[${rows}A`;
      const shown = streams.stdout.write(`${up}\r\u001b[J${text}\n`);
      Object.assign(editor, { prevRows: 0 });
      editor.prompt(true);
      await shown;
    },
    close: () => editor.close(),
  };
}
