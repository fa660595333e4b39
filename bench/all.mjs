/** `npm run bench`: runs the measurements that compare asp with a floor, one after another. Each prints its ratios. */
import { spawnSync } from 'node:child_process';
import { loadavg } from 'node:os';
import { fileURLToPath } from 'node:url';

const SCRIPTS = [
  ['startup.mjs'],
  ['throughput.mjs'],
  ['delivery.mjs', '3'],
  ['load.mjs', 'idle'],
  ['load.mjs', 'tail'],
];

console.log(`Load of this machine before the first one: ${loadavg()[0].toFixed(1)}`);
for (const [script, ...args] of SCRIPTS) {
  console.log(`\n## ${[script, ...args].join(' ')}\n`);
  const path = fileURLToPath(new URL(script, import.meta.url));
  const { status } = spawnSync(process.execPath, [path, ...args], { stdio: 'inherit' });
  if (status !== 0) process.exitCode = 1;
}
