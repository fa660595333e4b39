import type { Outcome } from '../terminal/cli-error.js';

/** What a command knows of a call that the error of the call does not: the user's words for it. */
export interface About {
  /** What the user named: `@alice.bot`, `sess_…`. */
  readonly subject?: string | undefined;
  /** By code: the whole sentence in place of `subject: what the service said`. */
  readonly messages?: Readonly<Record<string, string>> | undefined;
  /** By code. */
  readonly reasons?: Readonly<Record<string, string>> | undefined;
  /** By code: the command to run next. */
  readonly next?: Readonly<Record<string, readonly string[]>> | undefined;
  /** `Nothing was sent.` and its like. */
  readonly outcomeText?: Readonly<Record<Outcome, string>> | undefined;
  /** What settles a write whose outcome is unknown, where that is not the same command again. */
  readonly again?: readonly string[] | undefined;
  /** The key to repeat the whole command with, where that of the call is made of it. */
  readonly key?: string | undefined;
  /** False when the same words would not do the same again: the text came from stdin. */
  readonly isRepeatable?: boolean | undefined;
}

/** A failure and what the command had to say about it. */
export class ExplainedError extends Error {
  override readonly name = 'ExplainedError';
  readonly about: About;

  constructor(about: About, cause: unknown) {
    super('a call failed', { cause });
    this.about = about;
  }
}

/** The call, with the command's own words for its failure. */
export async function explain<Value>(about: About, call: Promise<Value>): Promise<Value> {
  try {
    return await call;
  } catch (error) {
    throw error instanceof ExplainedError ? error : new ExplainedError(about, error);
  }
}
