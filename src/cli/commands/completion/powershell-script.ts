import { type CompletionTree, namesOf, type OfferedOption, type ValueKind } from './tree.js';

/** A text between single quotes, as PowerShell reads it. */
const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`;
const kindText = (kind: ValueKind): string => (typeof kind === 'string' ? kind : `=${kind.join(' ')}`);
const list = (texts: readonly string[]): string => `@(${texts.map(quoted).join(', ')})`;

/** `-v` and `-V` are two options, and a hash literal of PowerShell would take them for one: it does not compile. */
function optionTable(options: readonly OfferedOption[]): string {
  const rows = options.flatMap((option) =>
    namesOf(option).map((name) => (option.value === undefined ? name : `${name} ${kindText(option.value)}`)),
  );
  return `& $table ${list(rows)}`;
}

/** The tree of commands. */
function tables({ places, spellings, everywhere }: CompletionTree): string {
  return `  $table = {
    param($rows)
    $made = [System.Collections.Generic.Dictionary[string, string]]::new()
    foreach ($row in $rows) {
      $name, $kind = $row.Split(' ', 2)
      $made[$name] = "$kind"
    }
    $made
  }
  $spellings = [System.Collections.Generic.Dictionary[string, string]]::new()
${spellings.map(([typed, path]) => `  $spellings[${quoted(typed)}] = ${quoted(path)}`).join('\n')}
  $words = [System.Collections.Generic.Dictionary[string, string[]]]::new()
  $options = [System.Collections.Generic.Dictionary[string, System.Collections.Generic.Dictionary[string, string]]]::new()
  $values = [System.Collections.Generic.Dictionary[string, string[]]]::new()
${places
  .flatMap(({ path, words, options, values }) => [
    `  $words[${quoted(path)}] = ${list(words.map(({ word }) => word))}`,
    ...(options.length === 0 ? [] : [`  $options[${quoted(path)}] = ${optionTable(options)}`]),
    ...(values.length === 0 ? [] : [`  $values[${quoted(path)}] = ${list(values.map(kindText))}`]),
  ])
  .join('\n')}
  $everywhere = ${optionTable(everywhere)}
`;
}

/** How the words of a line lead to a place of the tree, and what is offered there. */
const CODE = `
  # The words that asp remembers for completions: one a line, read without starting it.
  $remembered = {
    param($kind)
    $folder = if ($env:LOCALAPPDATA) { Join-Path $env:LOCALAPPDATA 'asp-cli/State' }
      elseif ($env:XDG_STATE_HOME) { Join-Path $env:XDG_STATE_HOME 'asp-cli' }
      elseif ($IsMacOS) { Join-Path $HOME 'Library/Application Support/asp-cli' }
      else { Join-Path $HOME '.local/state/asp-cli' }
    $file = Join-Path $folder "completion/$kind"
    if (Test-Path -LiteralPath $file -PathType Leaf) {
      # A bare @ begins something else here; a handle may be typed without it.
      Get-Content -LiteralPath $file | Where-Object { $_ -match '^[@A-Za-z0-9._-]+$' } | ForEach-Object { $_.TrimStart('@') }
    }
  }
  $offer = {
    param($kind)
    if ($kind.StartsWith('=')) { $kind.Substring(1).Split(' ') }
    elseif ($kind -in 'handles', 'sessions', 'profiles') { & $remembered $kind }
  }
  $kindOf = {
    param($path, $name)
    if ($options.ContainsKey($path) -and $options[$path].ContainsKey($name)) { $options[$path][$name] }
    elseif ($everywhere.ContainsKey($name)) { $everywhere[$name] }
    else { '' }
  }

  $typed = @($commandAst.CommandElements | Select-Object -Skip 1 |
    Where-Object { $_.Extent.EndOffset -lt $cursorPosition } | ForEach-Object { $_.Extent.Text })
  $path = ''
  $taking = ''
  $isAmongWords = $true
  foreach ($word in $typed) {
    if ($taking) { $taking = ''; continue }
    if ($word.StartsWith('-')) { $taking = & $kindOf $path $word; continue }
    if (-not $isAmongWords) { continue }
    $next = ("$path $word").Trim()
    if ($spellings.ContainsKey($next)) { $next = $spellings[$next] }
    if ($words.ContainsKey($next)) { $path = $next } else { $isAmongWords = $false }
  }

  $offered = if ($taking) { & $offer $taking }
    elseif ($wordToComplete.StartsWith('-')) {
      if ($options.ContainsKey($path)) { $options[$path].Keys | Sort-Object }
      $everywhere.Keys | Sort-Object
    }
    else {
      if ($isAmongWords) { $words[$path] }
      if ($values.ContainsKey($path)) { $values[$path] | ForEach-Object { & $offer $_ } }
    }
  $offered | Where-Object { $_ -and $_.StartsWith($wordToComplete) } |
    ForEach-Object { [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_) }
}
`;

/** The completion of PowerShell. */
export function powershellScript(tree: CompletionTree): string {
  const head = `# PowerShell completion of asp. Made by: asp completion powershell
# Install: asp completion powershell >> $PROFILE

Register-ArgumentCompleter -Native -CommandName asp -ScriptBlock {
  param($wordToComplete, $commandAst, $cursorPosition)

`;
  return head + tables(tree) + CODE;
}
