// The development loop: builds on every change of src/ and restarts a seeded service on http://127.0.0.1:8744. Its data
// is in .dev/, so sessions survive a restart. Delete the folder to start over. Extra arguments go to `asp serve`.
import { spawn } from 'node:child_process';
import { watch } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const SERVE = ['serve', '--demo', '--limits', 'off', '--data', `${root}.dev`, ...process.argv.slice(2)];
const SETTLE_MS = 100;

let service;
let isBuilding = false;
let mustBuildAgain = false;

const ended = (child) => new Promise((resolve) => child.once('close', resolve));
const start = (script, args) => spawn(process.execPath, [`${root}${script}`, ...args], { cwd: root, stdio: 'inherit' });

async function rebuild() {
  if (isBuilding) {
    mustBuildAgain = true;
    return;
  }
  isBuilding = true;
  do {
    mustBuildAgain = false;
    if ((await ended(start('scripts/build.mjs', []))) !== 0) {
      console.error('The build failed; the service keeps running the last one.');
      continue;
    }
    if (service !== undefined && service.exitCode === null) {
      const gone = ended(service);
      service.kill('SIGTERM');
      await gone;
    }
    service = start('bin/asp.js', SERVE);
  } while (mustBuildAgain);
  isBuilding = false;
}

let settle;
watch(`${root}src`, { recursive: true }, () => {
  clearTimeout(settle);
  settle = setTimeout(rebuild, SETTLE_MS);
});
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => service?.kill(signal) && process.exit(0));
await rebuild();
