import { type CompletionTree, namesOf, type OfferedOption, quoted, type ValueKind } from './tree.js';

/** `_asp_kind` in the words of the script: a kind, or `=` and the choices. */
const kindText = (kind: ValueKind): string => (typeof kind === 'string' ? kind : `=${kind.join(' ')}`);

function valueCases(path: string, options: readonly OfferedOption[]): string[] {
  return options.flatMap((option) => {
    if (option.value === undefined) return [];
    const patterns = namesOf(option).map((name) => quoted(path === '' ? name : `${path} ${name}`));
    return [`    ${patterns.join('|')}) _asp_kind=${quoted(kindText(option.value))} ;;`];
  });
}

/** How the words of a line lead to a place of the tree, in bash and zsh. */
function placeFunction({ places, spellings, takingValues }: CompletionTree): string {
  const paths = places.map(({ path }) => path).filter((path) => path !== '');
  return `
# Leaves the place that the words given lead to in _asp_path.
_asp_find_place() {
  _asp_path=''
  local word next takes=''
  for word in "$@"; do
    if [[ -n $takes ]]; then takes=''; continue; fi
    case $word in
      ${takingValues.join('|')}) takes=1; continue ;;
      -*) continue ;;
    esac
    next="\${_asp_path:+$_asp_path }$word"
    case $next in
${spellings.map(([typed, path]) => `      ${quoted(typed)}) next=${quoted(path)} ;;`).join('\n')}
    esac
    case $next in
      ${paths.map(quoted).join('|')}) _asp_path=$next ;;
      *) return ;;
    esac
  done
}
`;
}

/** What the values of options and the arguments of commands are, in bash and zsh. */
function kindFunctions({ places, everywhere }: CompletionTree): string {
  return `
# Leaves what the value of an option is in _asp_kind.
_asp_find_kind() {
  _asp_kind=nothing
  case "$_asp_path $1" in
${places.flatMap(({ path, options }) => (path === '' ? [] : valueCases(path, options))).join('\n')}
  esac
  [[ $_asp_kind == nothing ]] || return
  case $1 in
${valueCases('', everywhere).join('\n')}
  esac
}

# Leaves what the arguments of a place are in _asp_kinds.
_asp_find_arguments() {
  _asp_kinds=''
  case $_asp_path in
${places
  .filter(({ values }) => values.length > 0)
  .map(({ path, values }) => `    ${quoted(path)}) _asp_kinds=${quoted(values.map(kindText).join(' '))} ;;`)
  .join('\n')}
  esac
}
`;
}

const REMEMBERED = `
# The words that asp remembers for completions: one a line, read without starting it.
_asp_remembered() {
  local folder line
  if [[ $XDG_STATE_HOME == /* ]]; then folder=$XDG_STATE_HOME
  elif [[ $OSTYPE == darwin* ]]; then folder="$HOME/Library/Application Support"
  else folder=$HOME/.local/state
  fi
  folder=$folder/asp-cli/completion
  [[ -f $folder/$1 && -r $folder/$1 ]] || return 0
  while IFS= read -r line; do
    [[ $line =~ ^[@A-Za-z0-9._-]+$ ]] && printf '%s\\n' "$line"
  done < "$folder/$1"
  return 0
}
`;

/** What bash and zsh have in common. */
export function sharedFunctions(tree: CompletionTree): string {
  return placeFunction(tree) + kindFunctions(tree) + REMEMBERED;
}

/** The words and the options of each place. */
function offerTables({ places, everywhere }: CompletionTree): string {
  const global = everywhere.flatMap(namesOf).join(' ');
  return `
_asp_find_words() {
  _asp_words=''
  case $_asp_path in
${places
  .filter(({ words }) => words.length > 0)
  .map(({ path, words }) => `    ${quoted(path)}) _asp_words=${quoted(words.map(({ word }) => word).join(' '))} ;;`)
  .join('\n')}
  esac
}

_asp_find_options() {
  _asp_options=${quoted(global)}
  case $_asp_path in
${places
  .filter(({ options }) => options.length > 0)
  .map(
    ({ path, options }) => `    ${quoted(path)}) _asp_options="${options.flatMap(namesOf).join(' ')} $_asp_options" ;;`,
  )
  .join('\n')}
  esac
}
`;
}

const OFFER = `
# Adds what of the words in $1 begins as the word that is typed. It works in bash 3.2 too, which macOS has.
_asp_add() {
  local IFS=$' \\n'
  COMPREPLY+=($(compgen -W "$1" -- "$2"))
}

_asp_offer() {
  local kind=$1 current=$2 words IFS=$'\\n'
  case $kind in
    files) compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -f -- "$current")) ;;
    # bash takes @ for the end of a word; a handle may be typed without it.
    handles) words=$(_asp_remembered handles); _asp_add "\${words//@/}" "$current" ;;
    sessions|profiles) _asp_add "$(_asp_remembered "$kind")" "$current" ;;
    '='*) _asp_add "\${kind#=}" "$current" ;;
  esac
}
`;

const mainFunction = ({ takingValues }: CompletionTree): string => `
_asp() {
  local current=\${COMP_WORDS[COMP_CWORD]} at=$((COMP_CWORD - 1)) kind
  local _asp_path _asp_kind _asp_kinds _asp_words _asp_options before=() word
  COMPREPLY=()
  if [[ $current == '@' || $current == '=' ]]; then current=''
  elif [[ \${COMP_WORDS[at]} == '@' ]]; then at=$((at - 1))
  fi
  [[ \${COMP_WORDS[at]} == '=' ]] && at=$((at - 1))
  for word in "\${COMP_WORDS[@]:1:at}"; do
    [[ $word == '@' || $word == '=' ]] || before+=("$word")
  done
  _asp_find_place "\${before[@]}"
  local previous=\${COMP_WORDS[at]}
  case $previous in
    ${takingValues.join('|')}) _asp_find_kind "$previous"; _asp_offer "$_asp_kind" "$current"; return ;;
  esac
  if [[ $current == -* ]]; then
    _asp_find_options
    _asp_add "$_asp_options" "$current"
    return
  fi
  _asp_find_words
  _asp_add "$_asp_words" "$current"
  _asp_find_arguments
  for kind in $_asp_kinds; do _asp_offer "$kind" "$current"; done
}

complete -F _asp asp
`;

/** The completion of bash. */
export function bashScript(tree: CompletionTree): string {
  const head = `# bash completion of asp. Made by: asp completion bash
# Install: asp completion bash > ~/.local/share/bash-completion/completions/asp
`;
  return head + sharedFunctions(tree) + offerTables(tree) + OFFER + mainFunction(tree);
}
