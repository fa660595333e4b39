import { withProcessLock } from '../../../src/client/credentials/process-lock.js';
import { systemClock } from '../../../src/kit/clock.js';
import { systemRandom } from '../../../src/kit/random.js';

const [lockDirectory = ''] = process.argv.slice(2);
await withProcessLock({ clock: systemClock, random: systemRandom, lockDirectory }, 'name', async () => {
  process.stdout.write('held\n');
  await new Promise((resolve) => setTimeout(resolve, 60_000));
});
