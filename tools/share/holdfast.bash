# Completion of the holdfast command for bash. Commands and options come from --help, so there is no second list. Names
# of dictionaries and keys come from the runtime directory that the line so far selects.

_holdfast_commands() { holdfast --help 2>/dev/null | sed -n '/^Commands:/,$s/^  \([a-z-]*\) .*/\1/p'; }

# COMMAND [SUBCOMMAND]
_holdfast_options() { holdfast "$@" --help 2>/dev/null | grep -oE -- '(^|[ ,])--?[a-zA-Z0-9][a-z-]*' | tr -d ' ,'; }

# COMMAND [SUBCOMMAND]. Sets `place` to "value OPTION" after an option that takes a value, else to the number of the
# word, and `dictionary` to the first word that is neither an option nor its value.
_holdfast_place() {
  local i word takes
  takes=" $(holdfast "$@" --help 2>/dev/null | sed -n 's/^  \(-[^ ]*\) [A-Z].*/\1/p' | tr ',\n' '  ') "
  place=0 dictionary="" world=(--user "$EUID")  # otherwise root would get the names of all users
  for ((i = 1 + $#; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    case $word in
      --) ;;
      -*)
        [[ $takes == *" $word "* ]] || continue
        if ((i + 1 == COMP_CWORD)); then
          place="value $word"
          return
        fi
        case $word in --dir | --user) world+=("$word" "${COMP_WORDS[i + 1]}") ;; esac
        ((++i))
        ;;
      *) ((++place == 1)) && dictionary=${word//[\"\'\\]/} ;;  # as typed, without quotes: never evaluated
    esac
  done
}

# Lists the subcommands of a command, which only the command's own --help shows.
_holdfast_subcommands() { holdfast "$1" --help 2>/dev/null | sed -n '/^Subcommands:/,$s/^  \([a-z]*\) .*/\1/p'; }

# Lists the columns of `holdfast top`, which its error message for an unknown column contains.
_holdfast_columns() { holdfast top --sort "" 2>&1 | sed -n '1s/.*expected one of //p' | tr -d ' ' | tr ',' '\n'; }

# Names and keys with escapes are left out: they would have to be typed with -e.
_holdfast_names() { holdfast ls "$@" 2>/dev/null | cut -f1 | grep -vF "\\"; }
_holdfast_queues() { holdfast queue ls "${world[@]}" 2>/dev/null | cut -f1 | grep -vF "\\"; }
_holdfast_cluster_names() {
  holdfast ls "${world[@]}" --json 2>/dev/null | grep -oE '\{"name":"[^"\]*","file":[^{}]*"cluster":"' | cut -d'"' -f4
}
_holdfast_keys() { holdfast keys "${world[@]}" --max 1000 --prefix "$2" -- "$1" 2>/dev/null | grep -vF "\\"; }
_holdfast_locks() { holdfast locks "${world[@]}" --max 1000 --prefix "$2" -- "$1" 2>/dev/null | cut -f2 | grep -vF "\\"; }

# Offers the input lines that begin with the word at the cursor, quoted for the shell.
_holdfast_offer() {
  local line
  while IFS= read -r line; do
    [[ -n $line && $line == "$current"* ]] && COMPREPLY+=("$(printf %q "$line")")
  done
}

_holdfast_value() {
  case $1 in
    --dir | --agent-config | --token-file) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    --user) mapfile -t COMPREPLY < <(compgen -u -- "$current") ;;
    --color) _holdfast_offer < <(printf '%s\n' auto always never) ;;
    -s | --sort) _holdfast_offer < <(_holdfast_columns) ;;
    -t | --type) _holdfast_offer < <(printf '%s\n' string number boolean) ;;
  esac
}

_holdfast() {
  local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} place dictionary world
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    _holdfast_offer < <(_holdfast_commands; printf '%s\n' --help --version)
    return
  fi
  local subcommand=()
  [[ $command == @(cluster|queue) ]] && ((COMP_CWORD > 2)) && subcommand=("${COMP_WORDS[2]}")
  # Options after "--" belong to the command that is run.
  if [[ $current == -* && " ${COMP_WORDS[*]:1:COMP_CWORD-1} " != *" -- "* ]]; then
    _holdfast_offer < <(_holdfast_options "$command" "${subcommand[@]}")
    return
  fi
  _holdfast_place "$command" "${subcommand[@]}"
  # Bash makes three words of --color=WHEN.
  if [[ $current == = ]]; then
    place="value ${COMP_WORDS[COMP_CWORD - 1]}" current=""
  elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == = ]]; then
    place="value ${COMP_WORDS[COMP_CWORD - 2]}"
  fi
  case $place in value*) _holdfast_value "${place#value }" && return ;; esac
  case $command:$place in
    run:0) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    ls:* | locks:* | top:*) _holdfast_offer < <(_holdfast_names "${world[@]:2}") ;;
    prune:* | rm:* | stat:0 | get:0 | set:0 | incr:0 | del:0 | ttl:0 | keys:0 | release:0 | lock:0)
      _holdfast_offer < <(_holdfast_names "${world[@]}")
      ;;
    get:1 | set:1 | incr:1 | ttl:1 | del:*) _holdfast_offer < <(_holdfast_keys "$dictionary" "$current") ;;
    cluster:0)
      if ((COMP_CWORD == 2)); then
        _holdfast_offer < <(_holdfast_subcommands cluster)
      elif [[ ${subcommand[*]} != accept-new-store ]]; then
        _holdfast_offer < <(_holdfast_cluster_names)
      fi
      ;;
    queue:0)
      if ((COMP_CWORD == 2)); then
        _holdfast_offer < <(_holdfast_subcommands queue)
      else
        _holdfast_offer < <(_holdfast_queues)
      fi
      ;;
    queue:*)
      case ${subcommand[0]} in
        ls) _holdfast_offer < <(_holdfast_queues) ;;
        work) mapfile -t COMPREPLY < <(compgen -c -- "$current") ;;
      esac
      ;;
    cluster:1 | release:1)
      [[ ${subcommand[*]} == @(status|accept-new-store) ]] || _holdfast_offer < <(_holdfast_locks "$dictionary" "$current")
      ;;
    lock:*) mapfile -t COMPREPLY < <(compgen -c -- "$current") ;;
  esac
}

complete -F _holdfast holdfast
