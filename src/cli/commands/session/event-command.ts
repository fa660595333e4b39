import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable } from 'node:stream';

import { toJsonLine } from '../../../kit/json-line.js';
import type { EventEnvelope } from '../../../wire/event.js';
import type { Context } from '../../context/context.js';
import { childEnvironment } from '../../terminal/child-environment.js';
import { findActor } from './facts.js';

/** A command that was given an event. */
export interface EventCommand {
  readonly stdout: Readable;
  /** Its exit code, or null when a signal ended it; rejects when it could not be started. */
  readonly ended: Promise<number | null>;
  /** Reaches what the command started too, when it runs `isApart`. */
  kill(signal: NodeJS.Signals): void;
}

export interface EventCommandOptions {
  readonly environment?: Readonly<Record<string, string>> | undefined;
  readonly signal?: AbortSignal | undefined;
  /** In a process group of its own: what interrupts us at a terminal does not reach it. */
  readonly isApart?: boolean | undefined;
}

/** Starts `command`: the event on its standard input, its ids in the environment, no text of a peer on its command line. */
export function startEventCommand(
  { environment, machine }: Context,
  command: string,
  event: EventEnvelope,
  options: EventCommandOptions = {},
): EventCommand {
  const ids = {
    ...options.environment,
    ASP_EVENT_ID: event.event_id,
    ASP_EVENT_TYPE: event.type,
    ASP_SESSION_ID: event.session_id,
    ASP_SEQUENCE: String(event.sequence),
    ASP_ACTOR: findActor(event),
  };
  const isWindows = machine.platform === 'win32';
  const isApart = options.isApart === true && !isWindows;
  const child = spawn(command, {
    shell: isWindows ? true : '/bin/sh',
    stdio: ['pipe', 'pipe', 'inherit'],
    env: childEnvironment(environment, ids),
    signal: options.signal,
    detached: isApart,
  });
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  // A command need not read its input.
  child.stdin.on('error', () => {});
  child.stdin.end(`${toJsonLine(event)}\n`);
  return { stdout: child.stdout, ended, kill: (signal) => killGroup(child, signal, isApart) };
}

function killGroup(child: ChildProcess, signal: NodeJS.Signals, isApart: boolean): void {
  if (child.pid === undefined) return;
  try {
    process.kill(isApart ? -child.pid : child.pid, signal);
  } catch {
    // It ended by itself meanwhile.
  }
}
