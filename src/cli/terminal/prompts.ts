import { UsageError } from '../errors.js';
import type { Streams } from './streams.js';

/** Questions to a person. Every question has a flag that answers it; without a terminal that flag is required. */
export interface Prompts {
  /** Whether a person can be asked: stdin and stderr are terminals and `--no-input` is not set. */
  readonly canAsk: boolean;
  confirm(question: string, flag: string): Promise<boolean>;
  choose(question: string, choices: readonly string[], flag: string): Promise<string>;
}

interface PromptSettings {
  readonly mayAsk: boolean;
  readonly isYes: boolean;
  readonly signal: AbortSignal;
  /** What Ctrl-C does: at a question the terminal gives it to us as a key. */
  readonly interrupt: () => void;
}

async function loadQuestions() {
  const [questions, { nameUnknownSize }] = await Promise.all([import('@clack/prompts'), import('./unknown-size.js')]);
  nameUnknownSize();
  return questions;
}

export function createPrompts(streams: Streams, { mayAsk, isYes, signal, interrupt }: PromptSettings): Prompts {
  const canAsk = mayAsk && streams.stdin.isTerminal && streams.stderr.isTerminal;
  const refuse = (question: string, flag: string): UsageError =>
    new UsageError(`${question} This needs an answer, and there is no terminal to ask on.`, {
      why: `give the answer with ${flag}.`,
    });
  const unanswered = (): Promise<never> =>
    new Promise((_, reject) => {
      if (signal.aborted) return reject(signal.reason);
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      interrupt();
    });
  return {
    canAsk,
    async confirm(question, flag) {
      if (isYes) return true;
      if (!canAsk) throw refuse(question, flag);
      const { confirm } = await loadQuestions();
      // What cannot be undone is not done by a stray Enter.
      const initialValue = flag !== '--yes';
      const answer = await confirm({ message: question, initialValue, signal, output: process.stderr });
      if (typeof answer === 'symbol') return unanswered();
      return answer;
    },
    async choose(question, choices, flag) {
      if (!canAsk) throw refuse(question, flag);
      const { select } = await loadQuestions();
      const options = choices.map((value) => ({ value, label: value }));
      const answer = await select({ message: question, options, signal, output: process.stderr });
      if (typeof answer === 'symbol') return unanswered();
      return answer;
    },
  };
}
