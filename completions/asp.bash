# bash completion of asp: it asks the program what may be typed next.
# Install: asp completion bash --install

_asp() {
  local line at width=$((${COLUMNS:-80} - 2))
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :files) return ;; # bash offers them itself: -o default
      :folders) compopt -o dirnames 2>/dev/null; return ;;
      :) compopt +o default 2>/dev/null ;;
      *) COMPREPLY+=("$line") ;;
    esac
  done < <(command asp __complete bash "$COMP_WORDBREAKS" -- "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
  for at in "${!COMPREPLY[@]}"; do
    line=${COMPREPLY[at]}
    # A second tab (63 is ?) only lists: what each of them is can stand beside it.
    if [[ $COMP_TYPE == 63 && ${#COMPREPLY[@]} -gt 1 && $line == *$'\t'?* ]]; then
      line="${line%%$'\t'*}  (${line#*$'\t'})"
      COMPREPLY[at]=${line:0:width}
    else
      COMPREPLY[at]=${line%%$'\t'*}
    fi
  done
}

# In the order of the program, where bash is new enough to keep it.
complete -o nosort -o default -F _asp asp 2>/dev/null || complete -o default -F _asp asp
