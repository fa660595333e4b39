import { until } from '../support/until.js';
import type { Home } from './program.js';

/** A real terminal in which a shell runs one line. */
interface Tmux {
  /** The text on the screen, without blanks at the ends of lines. */
  screen(): Promise<string>;
  /** Waits until the terminal shows this. */
  shows(pattern: RegExp): Promise<unknown>;
  type(...keys: string[]): Promise<unknown>;
  resize(columns: number): Promise<unknown>;
  /** The text on the screen, with escape sequences for colors. */
  escapes(): Promise<string>;
  close(): Promise<unknown>;
}

let terminals = 0;

/** Opens a terminal of this many columns and 20 rows, in which a shell of this home runs a line. */
export async function openTmux(home: Home, width: number, line: string): Promise<Tmux> {
  terminals += 1;
  const socket = `asp${terminals}`;
  const tmux = (...words: string[]) =>
    home.spawn('tmux', ['-L', socket, '-f', '/dev/null', ...words], {
      environment: { TMUX_TMPDIR: home.directory },
    }).ended;
  const { status, stderr } = await tmux('new-session', '-d', '-x', String(width), '-y', '20', `${line}; sleep 60`);
  if (status !== 0) throw new Error(`tmux did not start: ${stderr}`);
  const screen = async (): Promise<string> =>
    (await tmux('capture-pane', '-p')).stdout.replace(/ +$/gm, '').replace(/\n+$/, '\n');
  return {
    screen,
    shows: (pattern) => until(String(pattern), async () => pattern.test(await screen()), 15_000),
    type: (...keys) => tmux('send-keys', ...keys),
    resize: (columns) => tmux('resize-window', '-x', String(columns)),
    escapes: async () => (await tmux('capture-pane', '-p', '-e')).stdout,
    close: () => tmux('kill-server'),
  };
}
