// Records docs/terminal.svg: runs the steps below in a real terminal of 80 columns with a private service and home, and
// draws the output at the speed at which it appeared. Needs `script` (util-linux). Usage: npm run record
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const COLUMNS = 80;

/** `hide` keeps a step out of the picture. `$name` stands for the stdout of an earlier step. */
const STEPS = [
  { line: 'asp login @demo.you --yes' },
  { line: 'asp send @demo.echo "Is the build green?" --wait' },
  { line: 'asp send @demo.echo "Deploy to staging." --topic release', keep: 'sid' },
  { line: 'asp session wait $sid --for reply --after 0', hide: true },
  { line: 'asp session list' },
  { line: 'asp tail $sid --no-follow --pretty' },
  { line: 'asp session end $sid' },
];

const TYPING_MS = 34;
const PAUSE_MS = 900;
const SLOWEST_MS = 1_200;

const home = mkdtempSync(join(tmpdir(), 'asp-record-'));
const environment = {
  PATH: `${join(home, 'bin')}:${process.env.PATH}`,
  HOME: home,
  TERM: 'xterm-256color',
  LANG: 'C.UTF-8',
  ASP_TOKEN_STORE: 'file',
  XDG_RUNTIME_DIR: home,
};
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** Runs a line in a terminal. Returns its output in pieces, with the milliseconds since the start. */
function inTerminal(line) {
  const inner = `stty cols ${COLUMNS} rows 24; exec bash --norc -c ${quoted(line)}`;
  const child = spawn('script', ['-qefc', inner, '/dev/null'], { cwd: home, env: environment });
  const started = performance.now();
  const pieces = [];
  child.stdout.setEncoding('utf8').on('data', (text) => pieces.push({ at: performance.now() - started, text }));
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => (code === 0 ? resolve(pieces) : reject(new Error(`${line} ended with ${code}`))));
  });
}

const COLORS = {
  30: '#7d8590',
  31: '#ff7b72',
  32: '#7ee787',
  33: '#e3b341',
  34: '#79c0ff',
  35: '#d2a8ff',
  36: '#76e3ea',
};

/** Splits text with color codes into spans of one style. Drops all other control sequences. */
function runsOf(text, style) {
  const runs = [];
  let rest = text;
  while (rest !== '') {
    const found = /\u001b\[([0-9;?]*)([A-Za-z])/.exec(rest);
    const plain = found === null ? rest : rest.slice(0, found.index);
    if (plain !== '') runs.push({ text: plain, ...style });
    if (found === null) break;
    rest = rest.slice(found.index + found[0].length);
    if (found[2] !== 'm') continue;
    for (const code of found[1].split(';').map(Number)) {
      if (code === 0) for (const key of Object.keys(style)) delete style[key];
      else if (code === 1) style.isBold = true;
      else if (code === 2) style.isDim = true;
      else if (code === 22) {
        delete style.isBold;
        delete style.isDim;
      } else if (code === 39) delete style.color;
      else if (COLORS[code] !== undefined) style.color = COLORS[code];
    }
  }
  return runs;
}

/** What a spinner writes before each of its pictures: to the first column. */
const TO_START = '\u001b[1G';

/** Lays out a program's output as terminal lines: a carriage return starts the line over, and a long line wraps. */
function linesOf(pieces, startMs) {
  const lines = [];
  const style = {};
  let line = { at: undefined, runs: [], width: 0 };
  const finish = () => {
    lines.push(line);
    line = { at: undefined, runs: [], width: 0 };
  };
  let clock = startMs;
  let previous = 0;
  for (const { at, text } of pieces) {
    clock += Math.min(at - previous, SLOWEST_MS);
    previous = at;
    for (const part of text
      .replaceAll('\r\n', '\n')
      .replaceAll(TO_START, '\r')
      .split(/(\n|\r)/)) {
      if (part === '\n') finish();
      else if (part === '\r') line = { at: undefined, runs: [], width: 0 };
      else
        for (const run of runsOf(part, style))
          for (const character of run.text) {
            if (line.width === COLUMNS) finish();
            line.at ??= clock;
            line.width += 1;
            const last = line.runs.at(-1);
            const isSame = last && last.color === run.color && last.isBold === run.isBold && last.isDim === run.isDim;
            if (isSame) last.text += character;
            else line.runs.push({ ...run, text: character });
          }
    }
  }
  if (line.width > 0) finish();
  return { lines, endMs: clock };
}

const escaped = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
const CHARACTER = 8.43;
const LINE = 20;
const PADDING = 16;
const BAR = 34;

function tspan({ text, color, isBold, isDim }) {
  const attributes = [
    color === undefined ? '' : ` fill="${color}"`,
    isBold ? ' font-weight="700"' : '',
    isDim ? ' opacity="0.65"' : '',
  ].join('');
  return attributes === '' ? escaped(text) : `<tspan${attributes}>${escaped(text)}</tspan>`;
}

function draw(rows) {
  const width = Math.ceil(COLUMNS * CHARACTER + 2 * PADDING);
  const height = BAR + rows.length * LINE + 2 * PADDING;
  const shown = (at) => `style="animation-delay:${Math.round(at)}ms"`;
  const texts = rows.map(({ at, runs, typed }, index) => {
    const y = BAR + PADDING + (index + 1) * LINE - 5;
    if (typed === undefined)
      return runs.length === 0
        ? ''
        : `<text class="l" x="${PADDING}" y="${y}" ${shown(at)}>${runs.map(tspan).join('')}</text>`;
    const prompt = `<text class="l p" x="${PADDING}" y="${y}" ${shown(at)}>$</text>`;
    const letters = [...typed].map((letter, position) =>
      letter === ' '
        ? ''
        : `<text class="l b" x="${(PADDING + (position + 2) * CHARACTER).toFixed(1)}" y="${y}" ${shown(at + 250 + position * TYPING_MS)}>${escaped(letter)}</text>`,
    );
    return prompt + letters.join('');
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="A terminal: sign in, send a message to an agent, wait for its answer, list and follow sessions">
<style>
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#e6edf3;white-space:pre}
.p{fill:#7d8590}.b{font-weight:700}
.l{opacity:0;animation:show 1ms forwards}
@keyframes show{to{opacity:1}}
@media (prefers-reduced-motion:reduce){.l{opacity:1;animation:none}}
</style>
<rect width="${width}" height="${height}" rx="10" fill="#0d1117"/>
<circle cx="22" cy="20" r="6" fill="#ff5f57"/><circle cx="42" cy="20" r="6" fill="#febc2e"/><circle cx="62" cy="20" r="6" fill="#28c840"/>
${texts.filter((text) => text !== '').join('\n')}
</svg>
`;
}

async function startService() {
  const service = spawn(process.execPath, [`${root}bin/asp.js`, 'serve', '--demo', '--port', '0', '--data', 'memory'], {
    cwd: home,
    env: environment,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  await new Promise((resolve) => service.stdout.once('data', resolve));
  return service;
}

let service;
try {
  mkdirSync(join(home, 'bin'));
  symlinkSync(join(root, 'bin/asp.js'), join(home, 'bin/asp'));
  service = await startService();
  const rows = [];
  const kept = new Map();
  let clock = 400;
  for (const { line, keep, hide } of STEPS) {
    const actual = line.replaceAll(/\$(\w+)/g, (_, name) => kept.get(name));
    const pieces = await inTerminal(actual);
    const plain = pieces.map(({ text }) => text.replaceAll(/\u001b\[[0-9;?]*[A-Za-z]/g, '')).join('');
    if (keep !== undefined) kept.set(keep, plain.trim().split(/\s+/).at(-1));
    if (hide) continue;
    if (rows.length > 0) rows.push({ at: clock, runs: [] });
    const typed = actual.length + 2 > COLUMNS ? line : actual;
    rows.push({ at: clock, typed });
    const { lines, endMs } = linesOf(pieces, clock + 250 + typed.length * TYPING_MS + 250);
    rows.push(...lines.map((one) => ({ at: one.at ?? endMs, runs: one.runs })));
    clock = endMs + PAUSE_MS;
  }
  writeFileSync(`${root}docs/terminal.svg`, draw(rows));
  console.log(`docs/terminal.svg: ${rows.length} lines, ${Math.round(clock / 1000)} s`);
} finally {
  if (service !== undefined) {
    const gone = new Promise((resolve) => service.once('close', resolve));
    service.kill('SIGTERM');
    await gone;
  }
  rmSync(home, { recursive: true, force: true, maxRetries: 5 });
}
