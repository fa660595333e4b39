import type { Client } from '../../client/client.js';
import type { Credential } from '../../client/credentials/credential.js';
import type { Logins } from '../../client/credentials/login.js';
import type { Transport } from '../../client/http/transport.js';
import type { Clock } from '../../kit/clock.js';
import type { Environment } from '../../kit/environment.js';
import type { Random } from '../../kit/random.js';
import type { LocalServiceRecord } from '../../wire/schemas/local-service.js';
import type { Program } from '../command.js';
import type { Config, ConfigChange } from '../profile/config.js';
import type { Paths } from '../profile/paths.js';
import type { ProjectFile } from '../profile/project-file.js';
import type { ResolvedAgent, ResolvedProfile } from '../profile/resolve-profile.js';
import type { Output } from '../terminal/output.js';
import type { Prompts } from '../terminal/prompts.js';
import type { Streams } from '../terminal/streams.js';
import type { ActingIdentity } from './describe-failure.js';
import type { Globals } from './globals.js';

/** Facts about the machine that a command may need; injected, so that tests control them. */
export interface Machine {
  readonly platform: NodeJS.Platform;
  readonly arch: string;
  readonly nodeVersion: string;
  /** Undefined if the system does not say. */
  readonly hostName: string | undefined;
  /** Undefined if the user has none. */
  readonly homeDirectory: string | undefined;
  readonly temporaryDirectory: string;
  readonly workingDirectory: string;
  /** Undefined on Windows. */
  readonly userId: number | undefined;
  readonly processId: number;
  /** How this process was started: the program, its script, its arguments. */
  readonly commandLine: readonly string[];
  readonly isProcessAlive: (pid: number) => boolean;
  /** When a process started, in the system's own format; undefined if the system does not say. */
  readonly processStart: (pid: number) => string | undefined;
}

/** Everything that a run of the program gets from outside. */
export interface Surroundings {
  readonly streams: Streams;
  readonly environment: Environment;
  readonly machine: Machine;
  readonly clock: Clock;
  readonly random: Random;
  readonly version: string;
  /** Aborted by a signal, by the deadline, or when the reader of stdout is gone. */
  readonly signal: AbortSignal;
  /**
   * When the command must finish, on the clock's monotonic scale, and the length of the deadline; undefined: no
   * deadline.
   */
  readonly deadline?:
    | { readonly atMs: number; readonly afterMs: number; readonly hasPassed: () => boolean }
    | undefined;
  /** The process belongs to another program, which uses the library: its settings are left alone. */
  readonly isGuest?: boolean;
  /** From now on a signal only aborts `signal`, and the process ends when the command does. */
  readonly finishOnSignal: () => void;
  /** From now on the process survives a first signal until the command ends, and then dies from it. */
  readonly tidyUpOnSignal: () => void;
  /** Does the same as Ctrl-C at a terminal. */
  readonly interrupt: () => void;
  /** While `work` runs, the next signal aborts the one that it gets and does nothing else. */
  readonly untilSignal: <Value>(work: (signal: AbortSignal) => Promise<Value>) => Promise<Value>;
  /** While `work` runs, another program has the terminal and handles Ctrl-C. */
  readonly lendTerminal: <Value>(work: () => Promise<Value>) => Promise<Value>;
}

/** The input of a command. Cheap parts are members; costly ones are built on first use. */
export interface Context extends Surroundings {
  readonly globals: Globals;
  readonly output: Output;
  readonly program: Program;
  readonly paths: Paths;
  readonly prompts: Prompts;
  config(): Promise<Config>;
  /**
   * Replaces the settings with what `change` makes of those that are stored now. No other command changes them in the meantime.
   * @throws CliError `ASP_CONFIG`
   */
  changeConfig(change: ConfigChange): Promise<{ readonly before: Config; readonly next: Config }>;
  projectFile(): Promise<ProjectFile | undefined>;
  /** The running local service of this user, or undefined. */
  localService(): Promise<LocalServiceRecord | undefined>;
  /** The record of a local service that ended without removing it. */
  endedService(): Promise<LocalServiceRecord | undefined>;
  /** The service. @throws CliError `ASP_CONFIG`, `ASP_LOCAL_NOT_RUNNING` */
  profile(): Promise<ResolvedProfile>;
  /** The agent; its handle is undefined if the credential decides. @throws CliError `ASP_NO_CREDENTIAL` */
  agent(): Promise<ResolvedAgent>;
  transport(): Promise<Transport>;
  /** The process does not exit until `work` has ended. */
  readonly holdExit: (work: Promise<unknown>) => void;
  logins(): Promise<Logins>;
  credential(): Promise<Credential>;
  /** Talks to the service as the agent. */
  client(): Promise<Client>;
  /** The acting agent, if the login or the token's answer names it: a bare token does not. */
  knownHandle(): Promise<string | undefined>;
  /** The handle that the credential really acts as; asks the service if it is not known here. */
  actingHandle(): Promise<string>;
  /** The agent, service and credential of the command, as far as they are known by now. */
  identity(): ActingIdentity;
}

/** A context and the function that closes it. */
export interface ClosableContext extends Context {
  /** Closes everything that is open, after the work that must not be interrupted. */
  close(): Promise<void>;
}
