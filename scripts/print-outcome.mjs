// Prints "N passed, N failed, N skipped" from the outcome reporter's file and exits as the tests did.
import { existsSync, readFileSync } from 'node:fs';

const [outcomeFile = '', status = ''] = process.argv.slice(2);

function fail(reason) {
  console.error(reason);
  process.exit(Number(status) || 1);
}

if (!existsSync(outcomeFile)) fail(`The tests did not run to their end (exit ${status}); there are no counts.`);

const { passed, failed, skipped, isWhole } = JSON.parse(readFileSync(outcomeFile, 'utf8'));
if (!isWhole) fail(`Something failed outside the tests (exit ${status}); the counts would not be whole.`);
if (passed + failed === 0) fail('No test ran.');
if (failed === 0 && status !== '0') fail(`No test failed and yet the run did (exit ${status}).`);

console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
process.exitCode = failed === 0 ? 0 : 1;
