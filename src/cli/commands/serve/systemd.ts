import { spawn } from 'node:child_process';

import { createMutex } from '../../../kit/mutex.js';
import { beatEvery } from '../../../kit/repeat.js';
import type { Context } from '../../context/context.js';
import { childEnvironment } from '../../terminal/child-environment.js';

const PROGRAM = 'systemd-notify';
/** After sending its line, `systemd-notify` waits until systemd has read it. */
const LONGEST_SEND_MS = 10_000;
const MICROSECONDS_PER_MS = 1_000;

/**
 * Reports the state of this process to systemd, if systemd asks for it (sd_notify(3)). A failed report never fails the
 * caller.
 */
export interface Systemd {
  /** Also starts the reports that a watchdog waits for. */
  ready(): void;
  /** Resolves when systemd has this report and those before it. */
  stopping(): Promise<void>;
}

/**
 * Node.js cannot send on the kind of socket that `NOTIFY_SOCKET` names, so systemd's own program does it. systemd accepts its
 * lines with `NotifyAccess=all` in the unit.
 */
export function connectSystemd(context: Pick<Context, 'environment' | 'clock' | 'machine' | 'output'>): Systemd {
  const { environment, clock, output } = context;
  if ((environment['NOTIFY_SOCKET'] ?? '') === '') return { ready: () => {}, stopping: async () => {} };
  const inTurn = createMutex();
  let isWatchdogSending = false;
  let hasFailed = false;
  let stopWatchdog = (): void => {};
  const send = (line: string): Promise<void> =>
    inTurn(async () => {
      const failure = await runNotify(context, line);
      if (failure === undefined || hasFailed) return;
      hasFailed = true;
      await output.note(`systemd did not get the report ${line}: ${failure}`);
    });
  const watchdogMs = readWatchdogMs(context);
  return {
    ready() {
      void send('READY=1');
      if (watchdogMs === undefined) return;
      stopWatchdog = beatEvery(clock, watchdogMs / 2, () => {
        if (isWatchdogSending) return;
        isWatchdogSending = true;
        void send('WATCHDOG=1').then(() => {
          isWatchdogSending = false;
        });
      });
    },
    stopping() {
      stopWatchdog();
      return send('STOPPING=1');
    },
  };
}

/** Undefined: there is no watchdog, or it watches another process. */
function readWatchdogMs({ environment, machine }: Pick<Context, 'environment' | 'machine'>): number | undefined {
  const microseconds = Number(environment['WATCHDOG_USEC'] ?? 0);
  const watched = environment['WATCHDOG_PID'];
  const isOther = watched !== undefined && watched !== '' && Number(watched) !== machine.processId;
  return microseconds > 0 && !isOther ? microseconds / MICROSECONDS_PER_MS : undefined;
}

/** Undefined, or why it failed. */
function runNotify({ environment, clock }: Pick<Context, 'environment' | 'clock'>, line: string) {
  return new Promise<string | undefined>((resolve) => {
    const child = spawn(PROGRAM, [line], { env: childEnvironment(environment), stdio: 'ignore' });
    const cancel = clock.schedule(LONGEST_SEND_MS, () => child.kill('SIGKILL'), true);
    const end = (failure: string | undefined): void => {
      cancel();
      resolve(failure);
    };
    child.once('error', (error: Error & { code?: string }) =>
      end(error.code === 'ENOENT' ? `${PROGRAM} is not installed.` : error.message),
    );
    child.once('exit', (status, signal) =>
      end(status === 0 ? undefined : `${PROGRAM} ended with ${signal ?? status}.`),
    );
  });
}
