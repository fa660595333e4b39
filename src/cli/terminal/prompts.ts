import { textWidth, wrapText } from '../../kit/wrap.js';
import { type CliError, usageError } from '../errors.js';
import type { Streams } from './streams.js';

/** Questions to a person. Every question has a flag that answers it; without a terminal that flag is required. */
export interface Prompts {
  /** Whether a person can answer: stdin and stderr are terminals and `--no-input` is not set. */
  readonly canAsk: boolean;
  confirm(question: string, flag: string): Promise<boolean>;
  choose(question: string, choices: readonly string[], flag: string): Promise<string>;
}

interface PromptSettings {
  readonly mayAsk: boolean;
  readonly isYes: boolean;
  /** A question is a line of text, and so is its answer: nothing is drawn. */
  readonly isAccessible: boolean;
  readonly signal: AbortSignal;
  /** Handles Ctrl-C: during a question, the terminal sends it as a key. */
  readonly interrupt: () => void;
}

async function loadQuestions() {
  const [questions, { nameUnknownSize }] = await Promise.all([import('@clack/prompts'), import('./progress.js')]);
  nameUnknownSize();
  return questions;
}

/**
 * Waits for the answer to a question that is drawn. readline stops reading when the terminal suspends the program, and
 * leaves it to the program to go on: without this, the program would end without a word.
 */
async function answerOf<Answer>(question: Promise<Answer>): Promise<Answer> {
  // After the listener of readline.
  const resume = (): unknown => setImmediate(() => process.stdin.resume());
  process.on('SIGCONT', resume);
  return question.finally(() => process.off('SIGCONT', resume));
}

/** A line that the person typed; undefined at the end of the input. */
async function askLine(question: string, width: number, signal: AbortSignal): Promise<string | undefined> {
  const { createInterface } = await import('node:readline');
  const lines = createInterface({ input: process.stdin, terminal: false });
  process.stderr.write(`${wrapText(question, width - 1)} `);
  try {
    return await new Promise((resolve, reject) => {
      lines.once('line', (line) => resolve(line.trim()));
      lines.once('close', () => resolve(undefined));
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    });
  } finally {
    lines.close();
  }
}

/** Repeats the question until the answer is valid: a number, or a choice itself; undefined at the end of the input. */
async function chooseByNumber(
  question: string,
  choices: readonly string[],
  width: number,
  signal: AbortSignal,
): Promise<string | undefined> {
  const numbered = choices.map((choice, index) => `  ${index + 1}  ${choice}\n`).join('');
  process.stderr.write(`${wrapText(question, width)}\n${numbered}`);
  for (;;) {
    const answer = await askLine(`Number (1 to ${choices.length}):`, width, signal);
    if (answer === undefined) return undefined;
    const chosen = choices[Number(answer) - 1] ?? choices.find((choice) => choice === answer);
    if (chosen !== undefined) return chosen;
  }
}

export function createPrompts(streams: Streams, settings: PromptSettings): Prompts {
  const { mayAsk, isYes, isAccessible, signal, interrupt } = settings;
  const canAsk = mayAsk && streams.stderr.isTerminal && streams.stdin.isTerminal;
  const refuse = (question: string, flag: string): CliError =>
    usageError(`${question} This needs an answer, and there is no terminal to ask on.`, {
      why: `pass the answer with ${flag}.`,
    });
  const width = (): number => textWidth(streams.stderr);
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
      // An accidental Enter must not do something that cannot be undone.
      const initialValue = flag !== '--yes';
      if (isAccessible) {
        const line = await askLine(`${question} ${initialValue ? '[Y/n]' : '[y/N]'}`, width(), signal);
        if (line === undefined) return unanswered();
        return line === '' ? initialValue : /^y(es)?$/i.test(line);
      }
      const { confirm } = await loadQuestions();
      const answer = await answerOf(confirm({ message: question, initialValue, signal, output: process.stderr }));
      if (typeof answer === 'symbol') return unanswered();
      return answer;
    },
    async choose(question, choices, flag) {
      if (!canAsk) throw refuse(question, flag);
      if (isAccessible) return (await chooseByNumber(question, choices, width(), signal)) ?? unanswered();
      const { select } = await loadQuestions();
      const options = choices.map((value) => ({ value, label: value }));
      const answer = await answerOf(select({ message: question, options, signal, output: process.stderr }));
      if (typeof answer === 'symbol') return unanswered();
      return answer;
    },
  };
}
