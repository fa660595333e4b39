# PowerShell completion of asp. Made by: asp completion powershell
# Install: asp completion powershell >> $PROFILE

Register-ArgumentCompleter -Native -CommandName asp -ScriptBlock {
  param($wordToComplete, $commandAst, $cursorPosition)

  $table = {
    param($rows)
    $made = [System.Collections.Generic.Dictionary[string, string]]::new()
    foreach ($row in $rows) {
      $name, $kind = $row.Split(' ', 2)
      $made[$name] = "$kind"
    }
    $made
  }
  $spellings = [System.Collections.Generic.Dictionary[string, string]]::new()
  $spellings['login'] = 'auth login'
  $spellings['logout'] = 'auth logout'
  $spellings['whoami'] = 'auth whoami'
  $spellings['use'] = 'agent use'
  $spellings['send'] = 'message send'
  $spellings['tail'] = 'session tail'
  $spellings['sessions'] = 'session'
  $spellings['messages'] = 'message'
  $spellings['attachments'] = 'attachment'
  $spellings['agents'] = 'agent'
  $spellings['allowlists'] = 'allowlist'
  $spellings['blocks'] = 'block'
  $spellings['profiles'] = 'profile'
  $words = [System.Collections.Generic.Dictionary[string, string[]]]::new()
  $options = [System.Collections.Generic.Dictionary[string, System.Collections.Generic.Dictionary[string, string]]]::new()
  $values = [System.Collections.Generic.Dictionary[string, string[]]]::new()
  $words[''] = @('agent', 'allowlist', 'api', 'attachment', 'auth', 'block', 'commands', 'completion', 'config', 'demo', 'doctor', 'explain', 'help', 'login', 'logout', 'mcp', 'message', 'profile', 'run', 'schema', 'send', 'serve', 'session', 'status', 'tail', 'use', 'version', 'whoami')
  $words['agent'] = @('card', 'create', 'list', 'remove', 'search', 'show', 'update', 'use')
  $words['agent card'] = @()
  $values['agent card'] = @('handles')
  $words['agent create'] = @()
  $options['agent create'] = & $table @('--display-name nothing', '--description nothing', '--card files', '--policy =open allowlist', '--visibility =public private', '--dry-run', '--idempotency-key nothing', '--once nothing')
  $values['agent create'] = @('handles')
  $words['agent list'] = @()
  $options['agent list'] = & $table @('--limit nothing', '--all', '--cursor nothing')
  $words['agent remove'] = @()
  $options['agent remove'] = & $table @('--dry-run', '--idempotency-key nothing', '--once nothing')
  $values['agent remove'] = @('handles')
  $words['agent search'] = @()
  $options['agent search'] = & $table @('--limit nothing', '--all', '--cursor nothing')
  $words['agent show'] = @()
  $values['agent show'] = @('handles')
  $words['agent update'] = @()
  $options['agent update'] = & $table @('--display-name nothing', '--description nothing', '--card files', '--policy =open allowlist', '--visibility =public private', '--pause', '--resume', '--dry-run', '--idempotency-key nothing', '--once nothing')
  $values['agent update'] = @('handles')
  $words['agent use'] = @()
  $options['agent use'] = & $table @('--here', '--unset')
  $values['agent use'] = @('handles')
  $words['allowlist'] = @('add', 'apply', 'check', 'list', 'remove')
  $words['allowlist add'] = @()
  $options['allowlist add'] = & $table @('--dry-run', '--idempotency-key nothing', '--once nothing')
  $values['allowlist add'] = @('handles')
  $words['allowlist apply'] = @()
  $options['allowlist apply'] = & $table @('--prune', '--dry-run', '--idempotency-key nothing', '--once nothing')
  $values['allowlist apply'] = @('files')
  $words['allowlist check'] = @()
  $values['allowlist check'] = @('handles')
  $words['allowlist list'] = @()
  $words['allowlist remove'] = @()
  $options['allowlist remove'] = & $table @('--dry-run', '--idempotency-key nothing', '--once nothing')
  $values['allowlist remove'] = @('handles')
  $words['api'] = @()
  $options['api'] = & $table @('--method nothing', '-X nothing', '--http-header nothing', '-H nothing', '--include', '-i', '--field nothing', '--typed nothing', '--input files', '--paginate', '--dry-run', '--idempotency-key nothing', '--once nothing')
  $values['api'] = @('files')
  $words['attachment'] = @('download', 'list', 'show', 'upload')
  $words['attachment download'] = @()
  $options['attachment download'] = & $table @('--output files', '-o files', '--dir files', '--force', '--max-size nothing')
  $words['attachment list'] = @()
  $values['attachment list'] = @('sessions')
  $words['attachment show'] = @()
  $words['attachment upload'] = @()
  $options['attachment upload'] = & $table @('--filename nothing', '--dry-run', '--idempotency-key nothing', '--once nothing')
  $values['attachment upload'] = @('files')
  $words['auth'] = @('ci', 'clients', 'login', 'logout', 'refresh', 'status', 'token', 'whoami')
  $words['auth ci'] = @()
  $words['auth clients'] = @()
  $words['auth login'] = @()
  $options['auth login'] = & $table @('--no-browser', '--browser nothing', '--callback-port nothing', '--scopes nothing', '--read-only', '--store =keychain file', '--start', '--finish nothing')
  $values['auth login'] = @('handles')
  $words['auth logout'] = @()
  $options['auth logout'] = & $table @('--all', '--local-only')
  $values['auth logout'] = @('handles')
  $words['auth refresh'] = @()
  $options['auth refresh'] = & $table @('--scopes nothing')
  $values['auth refresh'] = @('handles')
  $words['auth status'] = @()
  $words['auth token'] = @()
  $options['auth token'] = & $table @('--resource =api ws', '--min-ttl nothing', '--header')
  $words['auth whoami'] = @()
  $options['auth whoami'] = & $table @('--offline', '--explain', '--short')
  $words['block'] = @('add', 'list', 'remove')
  $words['block add'] = @()
  $options['block add'] = & $table @('--dry-run', '--idempotency-key nothing', '--once nothing')
  $values['block add'] = @('handles')
  $words['block list'] = @()
  $options['block list'] = & $table @('--limit nothing', '--all', '--cursor nothing')
  $words['block remove'] = @()
  $options['block remove'] = & $table @('--dry-run', '--idempotency-key nothing', '--once nothing')
  $values['block remove'] = @('handles')
  $words['commands'] = @()
  $words['completion'] = @()
  $words['config'] = @('get', 'list', 'path', 'set', 'unset')
  $words['config get'] = @()
  $words['config list'] = @()
  $options['config list'] = & $table @('--origin')
  $words['config path'] = @()
  $words['config set'] = @()
  $words['config unset'] = @()
  $words['demo'] = @()
  $words['doctor'] = @()
  $options['doctor'] = & $table @('--fix')
  $words['explain'] = @()
  $words['help'] = @()
  $words['mcp'] = @()
  $options['mcp'] = & $table @('--read-only', '--files files')
  $words['message'] = @('list', 'search', 'send')
  $words['message list'] = @()
  $options['message list'] = & $table @('--last nothing', '-n nothing', '--after nothing', '--limit nothing', '--all', '--from handles')
  $values['message list'] = @('sessions')
  $words['message search'] = @()
  $options['message search'] = & $table @('--session sessions', '--with handles', '--limit nothing')
  $words['message send'] = @()
  $options['message send'] = & $table @('--end', '--topic nothing', '--message nothing', '-m nothing', '--message-file files', '-F files', '--file files', '--filename nothing', '--attach nothing', '--data files', '--parts files', '--meta nothing', '--lines', '--wait', '--end-after-reply', '--edit', '--strict', '--dry-run', '--idempotency-key nothing', '--once nothing')
  $values['message send'] = @('handles', 'sessions')
  $words['profile'] = @('add', 'list', 'remove', 'set', 'show', 'use')
  $words['profile add'] = @()
  $options['profile add'] = & $table @('--base-url nothing', '--auth-url nothing', '--web-url nothing', '--ws-url nothing')
  $values['profile add'] = @('profiles')
  $words['profile list'] = @()
  $words['profile remove'] = @()
  $values['profile remove'] = @('profiles')
  $words['profile set'] = @()
  $options['profile set'] = & $table @('--base-url nothing', '--auth-url nothing', '--web-url nothing', '--ws-url nothing')
  $values['profile set'] = @('profiles')
  $words['profile show'] = @()
  $values['profile show'] = @('profiles')
  $words['profile use'] = @()
  $values['profile use'] = @('profiles')
  $words['run'] = @()
  $options['run'] = & $table @('--exec nothing', '--from nothing', '--no-join', '--end', '--count nothing', '-c nothing', '--concurrency nothing', '--command-timeout nothing', '--grace nothing', '--tries nothing', '--on-failure =reply skip stop', '--since nothing', '--cursor-file files', '--ready-file files')
  $words['schema'] = @()
  $words['serve'] = @('account', 'agent', 'backup', 'client', 'invite', 'keys', 'logs', 'open', 'reset', 'restore', 'status', 'stop')
  $options['serve'] = & $table @('--host nothing', '--port nothing', '--data files', '--database nothing', '--bus nothing', '--bus-creds files', '--public-url nothing', '--behind-proxy', '--seed handles', '--policy =open allowlist', '--demo', '--limits =on off', '--trust =recipient symmetric', '--sign-up =open invite off', '--open-agents =trusted all', '--account-agents nothing', '--account-clients nothing', '--account-storage nothing', '--account-sessions nothing', '--max-participants nothing', '--presence-grace nothing', '--log =errors text json', '--security-log files', '--metrics-port nothing', '--inject nothing', '--config files', '--print-config', '--adopt-attachments', '--detach', '--ready-file files')
  $words['serve account'] = @('list', 'remove', 'reset-password', 'resume', 'show', 'suspend', 'tier')
  $words['serve account list'] = @()
  $words['serve account remove'] = @()
  $words['serve account reset-password'] = @()
  $words['serve account resume'] = @()
  $words['serve account show'] = @()
  $words['serve account suspend'] = @()
  $words['serve account tier'] = @()
  $words['serve agent'] = @('add', 'list', 'pause', 'remove', 'resume')
  $words['serve agent add'] = @()
  $options['serve agent add'] = & $table @('--policy =open allowlist', '--display-name nothing')
  $values['serve agent add'] = @('handles')
  $words['serve agent list'] = @()
  $words['serve agent pause'] = @()
  $values['serve agent pause'] = @('handles')
  $words['serve agent remove'] = @()
  $values['serve agent remove'] = @('handles')
  $words['serve agent resume'] = @()
  $values['serve agent resume'] = @('handles')
  $words['serve backup'] = @()
  $options['serve backup'] = & $table @('--data files', '--with-keys', '--force')
  $values['serve backup'] = @('files')
  $words['serve client'] = @('add', 'list', 'revoke')
  $words['serve client add'] = @()
  $options['serve client add'] = & $table @('--scopes nothing')
  $values['serve client add'] = @('handles')
  $words['serve client list'] = @()
  $words['serve client revoke'] = @()
  $words['serve invite'] = @('create', 'list', 'revoke')
  $words['serve invite create'] = @()
  $options['serve invite create'] = & $table @('--expires nothing')
  $words['serve invite list'] = @()
  $words['serve invite revoke'] = @()
  $words['serve keys'] = @('list', 'rotate')
  $words['serve keys list'] = @()
  $words['serve keys rotate'] = @()
  $words['serve logs'] = @()
  $options['serve logs'] = & $table @('--last nothing', '-n nothing', '--follow')
  $words['serve open'] = @()
  $options['serve open'] = & $table @('--account nothing', '--no-browser')
  $words['serve reset'] = @()
  $options['serve reset'] = & $table @('--data files')
  $words['serve restore'] = @()
  $options['serve restore'] = & $table @('--data files')
  $values['serve restore'] = @('files')
  $words['serve status'] = @()
  $words['serve stop'] = @()
  $words['session'] = @('create', 'end', 'events', 'export', 'invite', 'join', 'leave', 'list', 'reopen', 'show', 'tail', 'wait')
  $words['session create'] = @()
  $options['session create'] = & $table @('--topic nothing', '--message nothing', '-m nothing', '--strict', '--dry-run', '--idempotency-key nothing', '--once nothing')
  $values['session create'] = @('handles')
  $words['session end'] = @()
  $options['session end'] = & $table @('--dry-run', '--idempotency-key nothing', '--once nothing')
  $values['session end'] = @('sessions')
  $words['session events'] = @()
  $options['session events'] = & $table @('--last nothing', '-n nothing', '--after nothing', '--since nothing', '--until nothing', '--type nothing', '--from handles', '--not-me', '--count nothing', '-c nothing', '--cursor-file files', '--pretty', '--text', '--fence', '--exec nothing', '--forward nothing', '--on-error =stop skip retry')
  $values['session events'] = @('sessions')
  $words['session export'] = @()
  $options['session export'] = & $table @('--output files', '-o files', '--format =jsonl md', '--with-attachments', '--force')
  $values['session export'] = @('sessions')
  $words['session invite'] = @()
  $options['session invite'] = & $table @('--strict', '--dry-run', '--idempotency-key nothing', '--once nothing')
  $values['session invite'] = @('sessions', 'handles')
  $words['session join'] = @()
  $options['session join'] = & $table @('--dry-run', '--idempotency-key nothing', '--once nothing')
  $values['session join'] = @('sessions')
  $words['session leave'] = @()
  $options['session leave'] = & $table @('--dry-run', '--idempotency-key nothing', '--once nothing')
  $values['session leave'] = @('sessions')
  $words['session list'] = @()
  $options['session list'] = & $table @('--state =active ended', '--limit nothing', '--all', '--cursor nothing')
  $words['session reopen'] = @()
  $options['session reopen'] = & $table @('--message nothing', '-m nothing', '--dry-run', '--idempotency-key nothing', '--once nothing')
  $values['session reopen'] = @('sessions', 'handles')
  $words['session show'] = @()
  $values['session show'] = @('sessions')
  $words['session tail'] = @()
  $options['session tail'] = & $table @('--last nothing', '-n nothing', '--after nothing', '--since nothing', '--until nothing', '--type nothing', '--from handles', '--not-me', '--count nothing', '-c nothing', '--cursor-file files', '--pretty', '--text', '--fence', '--exec nothing', '--forward nothing', '--on-error =stop skip retry', '--no-follow', '--idle nothing', '--keep', '--control', '--heartbeat nothing', '--ready-file files', '--join')
  $values['session tail'] = @('sessions')
  $words['session wait'] = @()
  $options['session wait'] = & $table @('--for nothing', '--after nothing')
  $values['session wait'] = @('sessions')
  $words['status'] = @()
  $options['status'] = & $table @('--offline')
  $words['version'] = @()
  $options['version'] = & $table @('--check')
  $everywhere = & $table @('--as handles', '-a handles', '--profile profiles', '-p profiles', '--json', '--jsonl', '--fields nothing', '--quiet', '-q', '--verbose', '-v', '--debug', '--no-input', '--yes', '-y', '--timeout nothing', '--retries nothing', '--color =auto always never', '--accessible', '--help', '-h', '--version', '-V')

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
