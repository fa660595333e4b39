import { beforeEach } from 'vitest';

import { TIME_IS_UP } from '../../scripts/outcome-reporter.js';

/** When the time for the tests is up, in epoch seconds; NaN: never. */
const until = Number(process.env['ASP_TEST_UNTIL']);

beforeEach(({ skip, task }) => {
  // One that has failed runs again: skipping it would hide that.
  const isFirstTry = (task.result?.retryCount ?? 0) === 0;
  if (isFirstTry && Date.now() / 1000 >= until) skip(TIME_IS_UP);
});
