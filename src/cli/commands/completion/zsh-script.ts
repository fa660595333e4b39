import { sharedFunctions } from './bash-script.js';
import { type CompletionTree, namesOf, type OfferedOption, quoted } from './tree.js';

/** `name:what it is`, as _describe reads it. */
const described = (name: string, about: string): string =>
  quoted(`${name.replaceAll(':', '\\:')}:${about.replace(/\\/g, '').replaceAll(':', '\\:')}`);

const optionTexts = (options: readonly OfferedOption[]): string =>
  options.flatMap((option) => namesOf(option).map((name) => described(name, option.about))).join(' ');

/** The completion of zsh. */
export function zshScript(tree: CompletionTree): string {
  const { places, everywhere, takingValues } = tree;
  return `#compdef asp
# zsh completion of asp. Made by: asp completion zsh
# Install: asp completion zsh > "\${fpath[1]}/_asp"
${sharedFunctions(tree)}
_asp_offer() {
  local kind=$1
  local -a words
  case $kind in
    files) _files ;;
    handles|sessions|profiles)
      words=("\${(@f)$(_asp_remembered $kind)}")
      [[ $kind == handles && $PREFIX != @* ]] && words=("\${(@)words#@}")
      compadd -- "\${(@)words:#}" ;;
    '='*) words=("\${(@s: :)\${kind#=}}"); compadd -- "\${(@)words}" ;;
  esac
}

_asp() {
  local _asp_path _asp_kind _asp_kinds kind previous=\${words[CURRENT-1]}
  local -a offered
  _asp_find_place "\${(@)words[2,CURRENT-1]}"
  case $previous in
    ${takingValues.join('|')}) _asp_find_kind "$previous"; _asp_offer "$_asp_kind"; return ;;
  esac
  if [[ $PREFIX == --*=* ]]; then
    _asp_find_kind "\${PREFIX%%=*}"
    compset -P '*='
    _asp_offer "$_asp_kind"
    return
  fi
  if [[ $PREFIX == -* ]]; then
    offered=(${optionTexts(everywhere)})
    case $_asp_path in
${places
  .filter(({ options }) => options.length > 0)
  .map(({ path, options }) => `      ${quoted(path)}) offered+=(${optionTexts(options)}) ;;`)
  .join('\n')}
    esac
    _describe -o option offered
    return
  fi
  case $_asp_path in
${places
  .filter(({ words }) => words.length > 0)
  .map(
    ({ path, words }) =>
      `    ${quoted(path)}) offered=(${words.map(({ word, about }) => described(word, about)).join(' ')}) ;;`,
  )
  .join('\n')}
  esac
  (( \${#offered} )) && _describe command offered
  _asp_find_arguments
  for kind in \${=_asp_kinds}; do _asp_offer "$kind"; done
}

if [[ \${funcstack[1]} == _asp ]]; then _asp "$@"; else compdef _asp asp; fi
`;
}
