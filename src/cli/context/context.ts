import type { Client } from '../../client/client.js';
import type { Credential } from '../../client/credentials/credential.js';
import type { Logins } from '../../client/credentials/login.js';
import type { Transport } from '../../client/http/transport.js';
import type { Clock } from '../../kit/clock.js';
import type { Random } from '../../kit/random.js';
import type { LocalServiceRecord } from '../../wire/local-service.js';
import type { Program } from '../command.js';
import type { Section } from '../help.js';
import type { Config } from '../profile/config.js';
import type { Paths } from '../profile/paths.js';
import type { ProjectFile } from '../profile/project-file.js';
import type { ResolvedAgent } from '../profile/resolve-agent.js';
import type { ResolvedProfile } from '../profile/resolve-profile.js';
import type { Output } from '../terminal/output.js';
import type { Prompts } from '../terminal/prompts.js';
import type { Streams } from '../terminal/streams.js';
import type { Acting } from './describe-failure.js';
import type { Environment, Globals } from './globals.js';

/** Facts of the machine that a command may want; injected, so that tests decide them. */
export interface Machine {
  readonly platform: NodeJS.Platform;
  readonly arch: string;
  readonly nodeVersion: string;
  /** Undefined when the user has none. */
  readonly homeDirectory: string | undefined;
  readonly temporaryDirectory: string;
  readonly workingDirectory: string;
  /** Undefined on Windows. */
  readonly userId: number | undefined;
  readonly processId: number;
  /** How this process was started: the program, its script, its arguments. */
  readonly commandLine: readonly string[];
  readonly isProcessAlive: (pid: number) => boolean;
  /** When a process began, in a form of the system's own; undefined where it does not say. */
  readonly processStart: (pid: number) => string | undefined;
}

/** Everything that a run of the program is given from outside. */
export interface Surroundings {
  readonly streams: Streams;
  readonly environment: Environment;
  readonly machine: Machine;
  readonly clock: Clock;
  readonly random: Random;
  readonly version: string;
  /** Aborted by a signal, by the deadline, or when nobody reads stdout any more. */
  readonly signal: AbortSignal;
  /** When the command must be done, on the clock's monotonic scale, and how long it had; undefined: it has no deadline. */
  readonly deadline?: { readonly atMs: number; readonly afterMs: number } | undefined;
  /** From now on a signal only aborts `signal`, and the process ends when the command does. */
  readonly finishOnSignal: () => void;
  /** From now on the process outlives a first signal until the command ends, and then dies by it. */
  readonly tidyUpOnSignal: () => void;
  /** Does what Ctrl-C does at a terminal. */
  readonly interrupt: () => void;
  /** While `work` runs, another program has the terminal, and Ctrl-C is its business. */
  readonly lendTerminal: <Value>(work: () => Promise<Value>) => Promise<Value>;
}

/** What a command is given. Cheap parts are members; costly ones are built by the first who asks. */
export interface Context extends Surroundings {
  readonly globals: Globals;
  readonly output: Output;
  readonly program: Program;
  readonly overview: readonly Section[];
  readonly paths: Paths;
  readonly prompts: Prompts;
  config(): Promise<Config>;
  saveConfig(config: Config): Promise<void>;
  projectFile(): Promise<ProjectFile | undefined>;
  /** The running local service of this user, or undefined. */
  localService(): Promise<LocalServiceRecord | undefined>;
  /** The record of a local service that ended without taking it away. */
  endedService(): Promise<LocalServiceRecord | undefined>;
  /** Which service. @throws CliError `ASP_CONFIG`, `ASP_LOCAL_NOT_RUNNING` */
  profile(): Promise<ResolvedProfile>;
  /** Which agent; its handle is undefined where the credential decides. @throws CliError `ASP_NO_CREDENTIAL` */
  agent(): Promise<ResolvedAgent>;
  transport(): Promise<Transport>;
  /** The process does not exit before `work` has ended. */
  readonly holdExit: (work: Promise<unknown>) => void;
  logins(): Promise<Logins>;
  credential(): Promise<Credential>;
  /** Speaks to the service as the agent. */
  client(): Promise<Client>;
  /** The acting agent, as far as the login or the token's answer names it: a bare token does not. */
  knownHandle(): Promise<string | undefined>;
  /** The handle the credential really acts as; asks the service where that is not known here. */
  actingHandle(): Promise<string>;
  /** As whom, where and with what the command acts, as far as that is known by now. */
  acting(): Acting;
}

/** A context and what ends it. */
export interface ClosableContext extends Context {
  /** Ends what is open, after the work that must not be cut short. */
  close(): Promise<void>;
}
