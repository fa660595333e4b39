import { writeFileSync } from 'node:fs';
import type { Reporter, TestCase, TestModule } from 'vitest/node';

/** Why `test/support/time-limit.ts` skips a test. */
export const TIME_IS_UP = 'the time was up: this machine is too slow for all tests';

/** The result of a whole run. `isWhole` is false if the run ended before all tests had. */
export interface Outcome {
  passed: number;
  failed: number;
  skipped: number;
  isWhole: boolean;
}

function countModule(module: TestModule): Outcome {
  const states = [...module.children.allTests()].map((test) => test.result().state);
  const count = (state: string): number => states.filter((one) => one === state).length;
  // A file that failed to load or set up counts as a failure, although none of its tests does.
  const isBroken = module.state() === 'failed' && count('failed') === 0;
  return {
    passed: count('passed'),
    failed: count('failed') + (isBroken ? 1 : 0),
    skipped: count('skipped'),
    isWhole: count('pending') === 0 && module.state() !== 'pending' && module.state() !== 'queued',
  };
}

function isLate(test: TestCase): boolean {
  const result = test.result();
  return result.state === 'skipped' && result.note === TIME_IS_UP;
}

/** Writes the outcome of a run to `file` when it ends. */
export function outcomeReporter(file: string): Reporter {
  return {
    onTestRunEnd(modules, unhandledErrors, reason) {
      const start: Outcome = {
        passed: 0,
        failed: 0,
        skipped: 0,
        isWhole: unhandledErrors.length === 0 && reason !== 'interrupted',
      };
      const outcome = modules.map(countModule).reduce(
        (sum, one) => ({
          passed: sum.passed + one.passed,
          failed: sum.failed + one.failed,
          skipped: sum.skipped + one.skipped,
          isWhole: sum.isWhole && one.isWhole,
        }),
        start,
      );
      writeFileSync(file, JSON.stringify(outcome));
      const late = modules.flatMap((module) => [...module.children.allTests('skipped')]).filter(isLate).length;
      if (late > 0) process.stdout.write(`\nSkipped because ${TIME_IS_UP}: ${late}\n`);
    },
  };
}

/**
 * Names the tests that failed at first and passed on the second try, with the first error. A busy machine can delay a
 * process by seconds, so one test in thousands needs it. It is still a defect of the test or the program.
 */
export function secondTryReporter(): Reporter {
  return {
    onTestRunEnd(modules) {
      const tests = modules.flatMap((module) =>
        [...module.children.allTests()]
          .filter((test) => test.diagnostic()?.flaky === true)
          .map((test) => {
            const errors = (test.result().errors ?? []).map(({ stack, message, diff }) =>
              // The stack of a test that took too long does not say so.
              [stack?.includes(message) === true ? stack : `${message}\n${stack ?? ''}`, diff]
                .filter(Boolean)
                .join('\n')
                .replaceAll(/^/gm, '    '),
            );
            return [`  ${module.relativeModuleId} > ${test.fullName}`, ...errors].join('\n');
          }),
      );
      if (tests.length === 0) return;
      process.stdout.write(`\nPassed only on the second try. Find out why:\n${tests.join('\n')}\n`);
    },
  };
}
