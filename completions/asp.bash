# bash completion of asp. Made by: asp completion bash
# Install: asp completion bash > ~/.local/share/bash-completion/completions/asp

# Leaves the place that the words given lead to in _asp_path.
_asp_find_place() {
  _asp_path=''
  local word next takes=''
  for word in "$@"; do
    if [[ -n $takes ]]; then takes=''; continue; fi
    case $word in
      --account|--account-agents|--account-clients|--account-sessions|--account-storage|--after|--as|--attach|--auth-url|--base-url|--browser|--bus|--bus-creds|--callback-port|--card|--color|--command-timeout|--concurrency|--config|--count|--cursor|--cursor-file|--data|--database|--description|--dir|--display-name|--exec|--expires|--field|--fields|--file|--filename|--files|--finish|--for|--format|--forward|--from|--grace|--heartbeat|--host|--http-header|--idempotency-key|--idle|--inject|--input|--last|--limit|--limits|--log|--max-participants|--max-size|--message|--message-file|--meta|--method|--metrics-port|--min-ttl|--on-error|--on-failure|--once|--open-agents|--output|--parts|--policy|--port|--presence-grace|--profile|--public-url|--ready-file|--resource|--retries|--scopes|--security-log|--seed|--session|--sign-up|--since|--state|--store|--timeout|--topic|--tries|--trust|--type|--typed|--until|--visibility|--web-url|--with|--ws-url|-F|-H|-X|-a|-c|-m|-n|-o|-p) takes=1; continue ;;
      -*) continue ;;
    esac
    next="${_asp_path:+$_asp_path }$word"
    case $next in
      'login') next='auth login' ;;
      'logout') next='auth logout' ;;
      'whoami') next='auth whoami' ;;
      'use') next='agent use' ;;
      'send') next='message send' ;;
      'tail') next='session tail' ;;
      'sessions') next='session' ;;
      'messages') next='message' ;;
      'attachments') next='attachment' ;;
      'agents') next='agent' ;;
      'allowlists') next='allowlist' ;;
      'blocks') next='block' ;;
      'profiles') next='profile' ;;
    esac
    case $next in
      'agent'|'agent card'|'agent create'|'agent list'|'agent remove'|'agent search'|'agent show'|'agent update'|'agent use'|'allowlist'|'allowlist add'|'allowlist apply'|'allowlist check'|'allowlist list'|'allowlist remove'|'api'|'attachment'|'attachment download'|'attachment list'|'attachment show'|'attachment upload'|'auth'|'auth ci'|'auth clients'|'auth login'|'auth logout'|'auth refresh'|'auth status'|'auth token'|'auth whoami'|'block'|'block add'|'block list'|'block remove'|'commands'|'completion'|'config'|'config get'|'config list'|'config path'|'config set'|'config unset'|'demo'|'doctor'|'explain'|'help'|'mcp'|'message'|'message list'|'message search'|'message send'|'profile'|'profile add'|'profile list'|'profile remove'|'profile set'|'profile show'|'profile use'|'run'|'schema'|'serve'|'serve account'|'serve account list'|'serve account remove'|'serve account reset-password'|'serve account resume'|'serve account show'|'serve account suspend'|'serve account tier'|'serve agent'|'serve agent add'|'serve agent list'|'serve agent pause'|'serve agent remove'|'serve agent resume'|'serve backup'|'serve client'|'serve client add'|'serve client list'|'serve client revoke'|'serve invite'|'serve invite create'|'serve invite list'|'serve invite revoke'|'serve keys'|'serve keys list'|'serve keys rotate'|'serve logs'|'serve open'|'serve reset'|'serve restore'|'serve status'|'serve stop'|'session'|'session create'|'session end'|'session events'|'session export'|'session invite'|'session join'|'session leave'|'session list'|'session reopen'|'session show'|'session tail'|'session wait'|'status'|'version') _asp_path=$next ;;
      *) return ;;
    esac
  done
}

# Leaves what the value of an option is in _asp_kind.
_asp_find_kind() {
  _asp_kind=nothing
  case "$_asp_path $1" in
    'agent create --display-name') _asp_kind='nothing' ;;
    'agent create --description') _asp_kind='nothing' ;;
    'agent create --card') _asp_kind='files' ;;
    'agent create --policy') _asp_kind='=open allowlist' ;;
    'agent create --visibility') _asp_kind='=public private' ;;
    'agent create --idempotency-key') _asp_kind='nothing' ;;
    'agent create --once') _asp_kind='nothing' ;;
    'agent list --limit') _asp_kind='nothing' ;;
    'agent list --cursor') _asp_kind='nothing' ;;
    'agent remove --idempotency-key') _asp_kind='nothing' ;;
    'agent remove --once') _asp_kind='nothing' ;;
    'agent search --limit') _asp_kind='nothing' ;;
    'agent search --cursor') _asp_kind='nothing' ;;
    'agent update --display-name') _asp_kind='nothing' ;;
    'agent update --description') _asp_kind='nothing' ;;
    'agent update --card') _asp_kind='files' ;;
    'agent update --policy') _asp_kind='=open allowlist' ;;
    'agent update --visibility') _asp_kind='=public private' ;;
    'agent update --idempotency-key') _asp_kind='nothing' ;;
    'agent update --once') _asp_kind='nothing' ;;
    'allowlist add --idempotency-key') _asp_kind='nothing' ;;
    'allowlist add --once') _asp_kind='nothing' ;;
    'allowlist apply --idempotency-key') _asp_kind='nothing' ;;
    'allowlist apply --once') _asp_kind='nothing' ;;
    'allowlist remove --idempotency-key') _asp_kind='nothing' ;;
    'allowlist remove --once') _asp_kind='nothing' ;;
    'api --method'|'api -X') _asp_kind='nothing' ;;
    'api --http-header'|'api -H') _asp_kind='nothing' ;;
    'api --field') _asp_kind='nothing' ;;
    'api --typed') _asp_kind='nothing' ;;
    'api --input') _asp_kind='files' ;;
    'api --idempotency-key') _asp_kind='nothing' ;;
    'api --once') _asp_kind='nothing' ;;
    'attachment download --output'|'attachment download -o') _asp_kind='files' ;;
    'attachment download --dir') _asp_kind='files' ;;
    'attachment download --max-size') _asp_kind='nothing' ;;
    'attachment upload --filename') _asp_kind='nothing' ;;
    'attachment upload --idempotency-key') _asp_kind='nothing' ;;
    'attachment upload --once') _asp_kind='nothing' ;;
    'auth login --browser') _asp_kind='nothing' ;;
    'auth login --callback-port') _asp_kind='nothing' ;;
    'auth login --scopes') _asp_kind='nothing' ;;
    'auth login --store') _asp_kind='=keychain file' ;;
    'auth login --finish') _asp_kind='nothing' ;;
    'auth refresh --scopes') _asp_kind='nothing' ;;
    'auth token --resource') _asp_kind='=api ws' ;;
    'auth token --min-ttl') _asp_kind='nothing' ;;
    'block add --idempotency-key') _asp_kind='nothing' ;;
    'block add --once') _asp_kind='nothing' ;;
    'block list --limit') _asp_kind='nothing' ;;
    'block list --cursor') _asp_kind='nothing' ;;
    'block remove --idempotency-key') _asp_kind='nothing' ;;
    'block remove --once') _asp_kind='nothing' ;;
    'mcp --files') _asp_kind='files' ;;
    'message list --last'|'message list -n') _asp_kind='nothing' ;;
    'message list --after') _asp_kind='nothing' ;;
    'message list --limit') _asp_kind='nothing' ;;
    'message list --from') _asp_kind='handles' ;;
    'message search --session') _asp_kind='sessions' ;;
    'message search --with') _asp_kind='handles' ;;
    'message search --limit') _asp_kind='nothing' ;;
    'message send --topic') _asp_kind='nothing' ;;
    'message send --message'|'message send -m') _asp_kind='nothing' ;;
    'message send --message-file'|'message send -F') _asp_kind='files' ;;
    'message send --file') _asp_kind='files' ;;
    'message send --filename') _asp_kind='nothing' ;;
    'message send --attach') _asp_kind='nothing' ;;
    'message send --data') _asp_kind='files' ;;
    'message send --parts') _asp_kind='files' ;;
    'message send --meta') _asp_kind='nothing' ;;
    'message send --idempotency-key') _asp_kind='nothing' ;;
    'message send --once') _asp_kind='nothing' ;;
    'profile add --base-url') _asp_kind='nothing' ;;
    'profile add --auth-url') _asp_kind='nothing' ;;
    'profile add --web-url') _asp_kind='nothing' ;;
    'profile add --ws-url') _asp_kind='nothing' ;;
    'profile set --base-url') _asp_kind='nothing' ;;
    'profile set --auth-url') _asp_kind='nothing' ;;
    'profile set --web-url') _asp_kind='nothing' ;;
    'profile set --ws-url') _asp_kind='nothing' ;;
    'run --exec') _asp_kind='nothing' ;;
    'run --from') _asp_kind='nothing' ;;
    'run --count'|'run -c') _asp_kind='nothing' ;;
    'run --concurrency') _asp_kind='nothing' ;;
    'run --command-timeout') _asp_kind='nothing' ;;
    'run --grace') _asp_kind='nothing' ;;
    'run --tries') _asp_kind='nothing' ;;
    'run --on-failure') _asp_kind='=reply skip stop' ;;
    'run --since') _asp_kind='nothing' ;;
    'run --cursor-file') _asp_kind='files' ;;
    'run --ready-file') _asp_kind='files' ;;
    'serve --host') _asp_kind='nothing' ;;
    'serve --port') _asp_kind='nothing' ;;
    'serve --data') _asp_kind='files' ;;
    'serve --database') _asp_kind='nothing' ;;
    'serve --bus') _asp_kind='nothing' ;;
    'serve --bus-creds') _asp_kind='files' ;;
    'serve --public-url') _asp_kind='nothing' ;;
    'serve --seed') _asp_kind='handles' ;;
    'serve --policy') _asp_kind='=open allowlist' ;;
    'serve --limits') _asp_kind='=on off' ;;
    'serve --trust') _asp_kind='=recipient symmetric' ;;
    'serve --sign-up') _asp_kind='=open invite off' ;;
    'serve --open-agents') _asp_kind='=trusted all' ;;
    'serve --account-agents') _asp_kind='nothing' ;;
    'serve --account-clients') _asp_kind='nothing' ;;
    'serve --account-storage') _asp_kind='nothing' ;;
    'serve --account-sessions') _asp_kind='nothing' ;;
    'serve --max-participants') _asp_kind='nothing' ;;
    'serve --presence-grace') _asp_kind='nothing' ;;
    'serve --log') _asp_kind='=errors text json' ;;
    'serve --security-log') _asp_kind='files' ;;
    'serve --metrics-port') _asp_kind='nothing' ;;
    'serve --inject') _asp_kind='nothing' ;;
    'serve --config') _asp_kind='files' ;;
    'serve --ready-file') _asp_kind='files' ;;
    'serve agent add --policy') _asp_kind='=open allowlist' ;;
    'serve agent add --display-name') _asp_kind='nothing' ;;
    'serve backup --data') _asp_kind='files' ;;
    'serve client add --scopes') _asp_kind='nothing' ;;
    'serve invite create --expires') _asp_kind='nothing' ;;
    'serve logs --last'|'serve logs -n') _asp_kind='nothing' ;;
    'serve open --account') _asp_kind='nothing' ;;
    'serve reset --data') _asp_kind='files' ;;
    'serve restore --data') _asp_kind='files' ;;
    'session create --topic') _asp_kind='nothing' ;;
    'session create --message'|'session create -m') _asp_kind='nothing' ;;
    'session create --idempotency-key') _asp_kind='nothing' ;;
    'session create --once') _asp_kind='nothing' ;;
    'session end --idempotency-key') _asp_kind='nothing' ;;
    'session end --once') _asp_kind='nothing' ;;
    'session events --last'|'session events -n') _asp_kind='nothing' ;;
    'session events --after') _asp_kind='nothing' ;;
    'session events --since') _asp_kind='nothing' ;;
    'session events --until') _asp_kind='nothing' ;;
    'session events --type') _asp_kind='nothing' ;;
    'session events --from') _asp_kind='handles' ;;
    'session events --count'|'session events -c') _asp_kind='nothing' ;;
    'session events --cursor-file') _asp_kind='files' ;;
    'session events --exec') _asp_kind='nothing' ;;
    'session events --forward') _asp_kind='nothing' ;;
    'session events --on-error') _asp_kind='=stop skip retry' ;;
    'session export --output'|'session export -o') _asp_kind='files' ;;
    'session export --format') _asp_kind='=jsonl md' ;;
    'session invite --idempotency-key') _asp_kind='nothing' ;;
    'session invite --once') _asp_kind='nothing' ;;
    'session join --idempotency-key') _asp_kind='nothing' ;;
    'session join --once') _asp_kind='nothing' ;;
    'session leave --idempotency-key') _asp_kind='nothing' ;;
    'session leave --once') _asp_kind='nothing' ;;
    'session list --state') _asp_kind='=active ended' ;;
    'session list --limit') _asp_kind='nothing' ;;
    'session list --cursor') _asp_kind='nothing' ;;
    'session reopen --message'|'session reopen -m') _asp_kind='nothing' ;;
    'session reopen --idempotency-key') _asp_kind='nothing' ;;
    'session reopen --once') _asp_kind='nothing' ;;
    'session tail --last'|'session tail -n') _asp_kind='nothing' ;;
    'session tail --after') _asp_kind='nothing' ;;
    'session tail --since') _asp_kind='nothing' ;;
    'session tail --until') _asp_kind='nothing' ;;
    'session tail --type') _asp_kind='nothing' ;;
    'session tail --from') _asp_kind='handles' ;;
    'session tail --count'|'session tail -c') _asp_kind='nothing' ;;
    'session tail --cursor-file') _asp_kind='files' ;;
    'session tail --exec') _asp_kind='nothing' ;;
    'session tail --forward') _asp_kind='nothing' ;;
    'session tail --on-error') _asp_kind='=stop skip retry' ;;
    'session tail --idle') _asp_kind='nothing' ;;
    'session tail --heartbeat') _asp_kind='nothing' ;;
    'session tail --ready-file') _asp_kind='files' ;;
    'session wait --for') _asp_kind='nothing' ;;
    'session wait --after') _asp_kind='nothing' ;;
  esac
  [[ $_asp_kind == nothing ]] || return
  case $1 in
    '--as'|'-a') _asp_kind='handles' ;;
    '--profile'|'-p') _asp_kind='profiles' ;;
    '--fields') _asp_kind='nothing' ;;
    '--timeout') _asp_kind='nothing' ;;
    '--retries') _asp_kind='nothing' ;;
    '--color') _asp_kind='=auto always never' ;;
  esac
}

# Leaves what the arguments of a place are in _asp_kinds.
_asp_find_arguments() {
  _asp_kinds=''
  case $_asp_path in
    'agent card') _asp_kinds='handles' ;;
    'agent create') _asp_kinds='handles' ;;
    'agent remove') _asp_kinds='handles' ;;
    'agent show') _asp_kinds='handles' ;;
    'agent update') _asp_kinds='handles' ;;
    'agent use') _asp_kinds='handles' ;;
    'allowlist add') _asp_kinds='handles' ;;
    'allowlist apply') _asp_kinds='files' ;;
    'allowlist check') _asp_kinds='handles' ;;
    'allowlist remove') _asp_kinds='handles' ;;
    'api') _asp_kinds='files' ;;
    'attachment list') _asp_kinds='sessions' ;;
    'attachment upload') _asp_kinds='files' ;;
    'auth login') _asp_kinds='handles' ;;
    'auth logout') _asp_kinds='handles' ;;
    'auth refresh') _asp_kinds='handles' ;;
    'block add') _asp_kinds='handles' ;;
    'block remove') _asp_kinds='handles' ;;
    'message list') _asp_kinds='sessions' ;;
    'message send') _asp_kinds='handles sessions' ;;
    'profile add') _asp_kinds='profiles' ;;
    'profile remove') _asp_kinds='profiles' ;;
    'profile set') _asp_kinds='profiles' ;;
    'profile show') _asp_kinds='profiles' ;;
    'profile use') _asp_kinds='profiles' ;;
    'serve agent add') _asp_kinds='handles' ;;
    'serve agent pause') _asp_kinds='handles' ;;
    'serve agent remove') _asp_kinds='handles' ;;
    'serve agent resume') _asp_kinds='handles' ;;
    'serve backup') _asp_kinds='files' ;;
    'serve client add') _asp_kinds='handles' ;;
    'serve restore') _asp_kinds='files' ;;
    'session create') _asp_kinds='handles' ;;
    'session end') _asp_kinds='sessions' ;;
    'session events') _asp_kinds='sessions' ;;
    'session export') _asp_kinds='sessions' ;;
    'session invite') _asp_kinds='sessions handles' ;;
    'session join') _asp_kinds='sessions' ;;
    'session leave') _asp_kinds='sessions' ;;
    'session reopen') _asp_kinds='sessions handles' ;;
    'session show') _asp_kinds='sessions' ;;
    'session tail') _asp_kinds='sessions' ;;
    'session wait') _asp_kinds='sessions' ;;
  esac
}

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
    [[ $line =~ ^[@A-Za-z0-9._-]+$ ]] && printf '%s\n' "$line"
  done < "$folder/$1"
  return 0
}

_asp_find_words() {
  _asp_words=''
  case $_asp_path in
    '') _asp_words='agent allowlist api attachment auth block commands completion config demo doctor explain help login logout mcp message profile run schema send serve session status tail use version whoami' ;;
    'agent') _asp_words='card create list remove search show update use' ;;
    'allowlist') _asp_words='add apply check list remove' ;;
    'attachment') _asp_words='download list show upload' ;;
    'auth') _asp_words='ci clients login logout refresh status token whoami' ;;
    'block') _asp_words='add list remove' ;;
    'config') _asp_words='get list path set unset' ;;
    'message') _asp_words='list search send' ;;
    'profile') _asp_words='add list remove set show use' ;;
    'serve') _asp_words='account agent backup client invite keys logs open reset restore status stop' ;;
    'serve account') _asp_words='list remove reset-password resume show suspend tier' ;;
    'serve agent') _asp_words='add list pause remove resume' ;;
    'serve client') _asp_words='add list revoke' ;;
    'serve invite') _asp_words='create list revoke' ;;
    'serve keys') _asp_words='list rotate' ;;
    'session') _asp_words='create end events export invite join leave list reopen show tail wait' ;;
  esac
}

_asp_find_options() {
  _asp_options='--as -a --profile -p --json --jsonl --fields --quiet -q --verbose -v --debug --no-input --yes -y --timeout --retries --color --accessible --help -h --version -V'
  case $_asp_path in
    'agent create') _asp_options="--display-name --description --card --policy --visibility --dry-run --idempotency-key --once $_asp_options" ;;
    'agent list') _asp_options="--limit --all --cursor $_asp_options" ;;
    'agent remove') _asp_options="--dry-run --idempotency-key --once $_asp_options" ;;
    'agent search') _asp_options="--limit --all --cursor $_asp_options" ;;
    'agent update') _asp_options="--display-name --description --card --policy --visibility --pause --resume --dry-run --idempotency-key --once $_asp_options" ;;
    'agent use') _asp_options="--here --unset $_asp_options" ;;
    'allowlist add') _asp_options="--dry-run --idempotency-key --once $_asp_options" ;;
    'allowlist apply') _asp_options="--prune --dry-run --idempotency-key --once $_asp_options" ;;
    'allowlist remove') _asp_options="--dry-run --idempotency-key --once $_asp_options" ;;
    'api') _asp_options="--method -X --http-header -H --include -i --field --typed --input --paginate --dry-run --idempotency-key --once $_asp_options" ;;
    'attachment download') _asp_options="--output -o --dir --force --max-size $_asp_options" ;;
    'attachment upload') _asp_options="--filename --dry-run --idempotency-key --once $_asp_options" ;;
    'auth login') _asp_options="--no-browser --browser --callback-port --scopes --read-only --store --start --finish $_asp_options" ;;
    'auth logout') _asp_options="--all --local-only $_asp_options" ;;
    'auth refresh') _asp_options="--scopes $_asp_options" ;;
    'auth token') _asp_options="--resource --min-ttl --header $_asp_options" ;;
    'auth whoami') _asp_options="--offline --explain --short $_asp_options" ;;
    'block add') _asp_options="--dry-run --idempotency-key --once $_asp_options" ;;
    'block list') _asp_options="--limit --all --cursor $_asp_options" ;;
    'block remove') _asp_options="--dry-run --idempotency-key --once $_asp_options" ;;
    'config list') _asp_options="--origin $_asp_options" ;;
    'doctor') _asp_options="--fix $_asp_options" ;;
    'mcp') _asp_options="--read-only --files $_asp_options" ;;
    'message list') _asp_options="--last -n --after --limit --all --from $_asp_options" ;;
    'message search') _asp_options="--session --with --limit $_asp_options" ;;
    'message send') _asp_options="--end --topic --message -m --message-file -F --file --filename --attach --data --parts --meta --lines --wait --end-after-reply --edit --strict --dry-run --idempotency-key --once $_asp_options" ;;
    'profile add') _asp_options="--base-url --auth-url --web-url --ws-url $_asp_options" ;;
    'profile set') _asp_options="--base-url --auth-url --web-url --ws-url $_asp_options" ;;
    'run') _asp_options="--exec --from --no-join --end --count -c --concurrency --command-timeout --grace --tries --on-failure --since --cursor-file --ready-file $_asp_options" ;;
    'serve') _asp_options="--host --port --data --database --bus --bus-creds --public-url --behind-proxy --seed --policy --demo --limits --trust --sign-up --open-agents --account-agents --account-clients --account-storage --account-sessions --max-participants --presence-grace --log --security-log --metrics-port --inject --config --print-config --adopt-attachments --detach --ready-file $_asp_options" ;;
    'serve agent add') _asp_options="--policy --display-name $_asp_options" ;;
    'serve backup') _asp_options="--data --with-keys --force $_asp_options" ;;
    'serve client add') _asp_options="--scopes $_asp_options" ;;
    'serve invite create') _asp_options="--expires $_asp_options" ;;
    'serve logs') _asp_options="--last -n --follow $_asp_options" ;;
    'serve open') _asp_options="--account --no-browser $_asp_options" ;;
    'serve reset') _asp_options="--data $_asp_options" ;;
    'serve restore') _asp_options="--data $_asp_options" ;;
    'session create') _asp_options="--topic --message -m --strict --dry-run --idempotency-key --once $_asp_options" ;;
    'session end') _asp_options="--dry-run --idempotency-key --once $_asp_options" ;;
    'session events') _asp_options="--last -n --after --since --until --type --from --not-me --count -c --cursor-file --pretty --text --fence --exec --forward --on-error $_asp_options" ;;
    'session export') _asp_options="--output -o --format --with-attachments --force $_asp_options" ;;
    'session invite') _asp_options="--strict --dry-run --idempotency-key --once $_asp_options" ;;
    'session join') _asp_options="--dry-run --idempotency-key --once $_asp_options" ;;
    'session leave') _asp_options="--dry-run --idempotency-key --once $_asp_options" ;;
    'session list') _asp_options="--state --limit --all --cursor $_asp_options" ;;
    'session reopen') _asp_options="--message -m --dry-run --idempotency-key --once $_asp_options" ;;
    'session tail') _asp_options="--last -n --after --since --until --type --from --not-me --count -c --cursor-file --pretty --text --fence --exec --forward --on-error --no-follow --idle --keep --control --heartbeat --ready-file --join $_asp_options" ;;
    'session wait') _asp_options="--for --after $_asp_options" ;;
    'status') _asp_options="--offline $_asp_options" ;;
    'version') _asp_options="--check $_asp_options" ;;
  esac
}

# Adds what of the words in $1 begins as the word that is typed. It works in bash 3.2 too, which macOS has.
_asp_add() {
  local IFS=$' \n'
  COMPREPLY+=($(compgen -W "$1" -- "$2"))
}

_asp_offer() {
  local kind=$1 current=$2 words IFS=$'\n'
  case $kind in
    files) compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -f -- "$current")) ;;
    # bash takes @ for the end of a word; a handle may be typed without it.
    handles) words=$(_asp_remembered handles); _asp_add "${words//@/}" "$current" ;;
    sessions|profiles) _asp_add "$(_asp_remembered "$kind")" "$current" ;;
    '='*) _asp_add "${kind#=}" "$current" ;;
  esac
}

_asp() {
  local current=${COMP_WORDS[COMP_CWORD]} at=$((COMP_CWORD - 1)) kind
  local _asp_path _asp_kind _asp_kinds _asp_words _asp_options before=() word
  COMPREPLY=()
  if [[ $current == '@' || $current == '=' ]]; then current=''
  elif [[ ${COMP_WORDS[at]} == '@' ]]; then at=$((at - 1))
  fi
  [[ ${COMP_WORDS[at]} == '=' ]] && at=$((at - 1))
  for word in "${COMP_WORDS[@]:1:at}"; do
    [[ $word == '@' || $word == '=' ]] || before+=("$word")
  done
  _asp_find_place "${before[@]}"
  local previous=${COMP_WORDS[at]}
  case $previous in
    --account|--account-agents|--account-clients|--account-sessions|--account-storage|--after|--as|--attach|--auth-url|--base-url|--browser|--bus|--bus-creds|--callback-port|--card|--color|--command-timeout|--concurrency|--config|--count|--cursor|--cursor-file|--data|--database|--description|--dir|--display-name|--exec|--expires|--field|--fields|--file|--filename|--files|--finish|--for|--format|--forward|--from|--grace|--heartbeat|--host|--http-header|--idempotency-key|--idle|--inject|--input|--last|--limit|--limits|--log|--max-participants|--max-size|--message|--message-file|--meta|--method|--metrics-port|--min-ttl|--on-error|--on-failure|--once|--open-agents|--output|--parts|--policy|--port|--presence-grace|--profile|--public-url|--ready-file|--resource|--retries|--scopes|--security-log|--seed|--session|--sign-up|--since|--state|--store|--timeout|--topic|--tries|--trust|--type|--typed|--until|--visibility|--web-url|--with|--ws-url|-F|-H|-X|-a|-c|-m|-n|-o|-p) _asp_find_kind "$previous"; _asp_offer "$_asp_kind" "$current"; return ;;
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
