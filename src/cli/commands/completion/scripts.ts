import type { Program } from '../../command.js';
import { bashScript } from './bash-script.js';
import type { Shell } from './completion.js';
import { fishScript } from './fish-script.js';
import { powershellScript } from './powershell-script.js';
import { type CompletionTree, completionTree } from './tree.js';
import { zshScript } from './zsh-script.js';

const SCRIPT: Readonly<Record<Shell, (tree: CompletionTree) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
  powershell: powershellScript,
};

/** The completion of a shell, for these commands. */
export function completionScript(shell: Shell, program: Program): string {
  return SCRIPT[shell](completionTree(program));
}
