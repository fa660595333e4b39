import type { Context } from '../../context/context.js';
import { UsageError } from '../../terminal/cli-error.js';
import type { Program } from '../../words/row.js';
import { suggest } from '../../words/suggest.js';
import type { Words } from '../../words/words.js';
import { bashScript } from './bash-script.js';
import { fishScript } from './fish-script.js';
import { powershellScript } from './powershell-script.js';
import { type CompletionTree, completionTree } from './tree.js';
import { zshScript } from './zsh-script.js';

const SCRIPT = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
  powershell: powershellScript,
} as const satisfies Record<string, (tree: CompletionTree) => string>;

/** The shells that have a completion. */
export type Shell = keyof typeof SCRIPT;
export const SHELLS = Object.keys(SCRIPT) as Shell[];

/** The completion of a shell, for these commands. */
export function completionScript(shell: Shell, program: Program): string {
  return SCRIPT[shell](completionTree(program));
}

export interface CompletionOptions {
  readonly shell: Shell;
}

export function parse(words: Words): CompletionOptions {
  const [typed = ''] = words.arguments;
  const shell = SHELLS.find((one) => one === typed.toLowerCase() || (one === 'powershell' && typed === 'pwsh'));
  if (shell !== undefined) return { shell };
  const near = suggest(typed, SHELLS)[0];
  throw new UsageError(`'${typed}' is no shell with a completion.`, {
    why: near === undefined ? `shells are ${SHELLS.join(', ')}.` : `did you mean ${near}?`,
    next: ['asp', 'completion', near ?? 'bash'],
  });
}

export async function run(context: Context, { shell }: CompletionOptions): Promise<void> {
  const { output, program } = context;
  const script = completionScript(shell, program);
  await (output.format === 'human' ? output.verbatim(script) : output.document({ shell, script }, () => script));
}
