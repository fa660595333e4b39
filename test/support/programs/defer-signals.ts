import { withDeferredSignals } from '../../../src/client/credentials/refresh-login.js';

await withDeferredSignals(async () => {
  process.stdout.write('begun\n');
  await new Promise((resolve) => setTimeout(resolve, 300));
  process.stdout.write('stored\n');
});
await new Promise((resolve) => setTimeout(resolve, 5_000));
process.stdout.write('went on\n');
