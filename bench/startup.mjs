/**
 * Measures the startup cost of `asp`: CPU time of the whole process compared with `node -e 0` on the same Node.js,
 * medians of paired runs. Usage: node bench/startup.mjs [runs] [name=path …]. Needs a built program; starts its own
 * service with a login in a file store. Each name=path is the script of another program, whose `--version` is measured
 * next to ours; this script installs none of them.
 */
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { cpuOf, medianOf, quietEnvironment } from './cpu.mjs';

const PROGRAM = fileURLToPath(new URL('../bin/asp.js', import.meta.url));
const [, , ...given] = process.argv;
const RUNS = Number(given.find((word) => /^\d+$/.test(word)) ?? 20);
const BESIDE = given.filter((word) => word.includes('=')).map((word) => word.split(/=(.*)/s, 2));

/** The limit for a command that sends requests. */
const REQUEST = process.version.startsWith('v20.') ? 3.3 : 3.8;

/** The measured command lines, and the highest allowed ratio for each. */
const BUDGET = [
  [['--version'], 1.3],
  [['--help'], 1.6],
  [['__complete', 'zsh', '--', 'send', ''], 1.45],
  [['send', '@alice.bot', 'hi', '--end'], REQUEST],
  [['session', 'list'], REQUEST],
];

const home = mkdtempSync(join(tmpdir(), 'asp-bench-'));
mkdirSync(join(home, 'run'), { mode: 0o700 });
const environment = quietEnvironment({ HOME: home, XDG_RUNTIME_DIR: join(home, 'run'), ASP_TOKEN_STORE: 'file' });
const service = spawn(
  process.execPath,
  [
    PROGRAM,
    'serve',
    '--demo',
    '--port',
    '0',
    '--data',
    'memory',
    '--limits',
    'off',
    '--ready-file',
    join(home, 'ready'),
  ],
  { env: environment, stdio: ['ignore', 'pipe', 'inherit'] },
);
await new Promise((resolve) => service.stdout.once('data', resolve));

/** Runs these arguments and `node -e 0` in pairs, taking turns. */
function measure(name, words, budget) {
  const bare = [];
  const whole = [];
  const ratios = [];
  for (let run = 0; run < RUNS; run += 1) {
    const base = cpuOf([process.execPath, '-e', '0'], environment);
    const cost = cpuOf([process.execPath, ...words], environment);
    bare.push(base * 1000);
    whole.push(cost * 1000);
    ratios.push(cost / base);
  }
  const ratio = medianOf(ratios);
  const cells = [`\`${name}\``, medianOf(bare).toFixed(0), medianOf(whole).toFixed(0), ratio.toFixed(2), budget];
  return { ratio, line: `| ${cells.join(' | ')} |` };
}

/** Another program may need another Node.js. */
function besideUs(name, path) {
  try {
    return measure(name, [path, '--version'], '').line;
  } catch {
    return `| \`${name}\` | does not run here |  |  |  |`;
  }
}

let isWithin = true;
try {
  const login = spawnSync(process.execPath, [PROGRAM, 'login', '@demo.you', '--yes'], {
    env: environment,
    stdio: 'ignore',
  });
  if (login.status !== 0) throw new Error(`login ended with ${login.status}`);
  console.log(`Node.js ${process.version}, ${RUNS} paired runs, CPU of the whole process`);
  console.log('| program | node -e 0 (ms) | program (ms) | ratio | limit |');
  console.log('|---|---|---|---|---|');
  for (const [words, budget] of BUDGET) {
    const { line, ratio } = measure(['asp', ...words].join(' '), [PROGRAM, ...words], budget);
    isWithin &&= ratio <= budget;
    console.log(line);
  }
  for (const [name, path] of BESIDE) console.log(besideUs(`${name} --version`, path));
} finally {
  service.kill('SIGTERM');
  await new Promise((resolve) => service.once('close', resolve));
  rmSync(home, { recursive: true, force: true });
}
process.exitCode = isWithin ? 0 : 1;
