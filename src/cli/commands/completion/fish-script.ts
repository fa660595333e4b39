import type { CompletionTree, OfferedOption, Place, ValueKind } from './tree.js';

/** A text between single quotes, as fish reads it. */
const quoted = (text: string): string => `'${text.replace(/\\/g, '\\\\').replaceAll("'", "\\'")}'`;

function valueText(kind: ValueKind): string {
  if (kind === 'files') return '-r -F';
  if (kind === 'nothing') return '-x';
  return typeof kind === 'string' ? `-x -a '(__asp_remembered ${kind})'` : `-x -a ${quoted(kind.join(' '))}`;
}

function optionLine(condition: string, { long, short, about, value }: OfferedOption): string {
  const names = `-l ${long.slice(2)}${short === undefined ? '' : ` -s ${short.slice(1)}`}`;
  const taken = value === undefined ? '' : ` ${valueText(value)}`;
  return `complete -c asp${condition} ${names}${taken} -d ${quoted(about)}`;
}

/** How the words of a line lead to a place of the tree. */
function placeFunction({ places, spellings, takingValues }: CompletionTree): string {
  const paths = places.map(({ path }) => path).filter((path) => path !== '');
  return `
# The place in the tree of commands that the line leads to.
function __asp_place
    set -l path ''
    set -l takes ''
    set -l tokens (commandline -opc)
    for word in $tokens[2..-1]
        if test -n "$takes"
            set takes ''
            continue
        end
        switch $word
            case ${takingValues.join(' ')}
                set takes 1
                continue
            case '-*'
                continue
        end
        set -l next (string trim -- "$path $word")
        switch $next
${spellings.map(([typed, path]) => `            case ${quoted(typed)}\n                set next ${quoted(path)}`).join('\n')}
        end
        switch $next
            case ${paths.map(quoted).join(' ')}
                set path $next
            case '*'
                break
        end
    end
    echo $path
end
`;
}

const FUNCTIONS = `
function __asp_at
    test (__asp_place) = "$argv[1]"
end

# The words that asp remembers for completions: one a line, read without starting it.
function __asp_remembered
    set -l folder $HOME/.local/state
    test (uname) = Darwin; and set folder "$HOME/Library/Application Support"
    string match -q -- '/*' "$XDG_STATE_HOME"; and set folder $XDG_STATE_HOME
    set -l file $folder/asp-cli/completion/$argv[1]
    test -f "$file" -a -r "$file"; and string match -r -- '^[@A-Za-z0-9._-]+$' <"$file"
end
`;

/** What is offered at a place. */
function placeLines({ path, words, options, values }: Place): string[] {
  const condition = ` -n ${quoted(`__asp_at ${quoted(path)}`)}`;
  return [
    ...words.map(({ word, about }) => `complete -c asp${condition} -a ${quoted(word)} -d ${quoted(about)}`),
    ...options.map((option) => optionLine(condition, option)),
    ...values.map((kind) => `complete -c asp${condition}${kind === 'files' ? ' -F' : ` ${valueText(kind).slice(3)}`}`),
  ];
}

/** The completion of fish. */
export function fishScript(tree: CompletionTree): string {
  const head = `# fish completion of asp. Made by: asp completion fish
# Install: asp completion fish > ~/.config/fish/completions/asp.fish
`;
  const lines = [
    'complete -c asp -f',
    ...tree.everywhere.map((option) => optionLine('', option)),
    ...tree.places.flatMap(placeLines),
  ];
  return `${head}${placeFunction(tree)}${FUNCTIONS}\n${lines.join('\n')}\n`;
}
