# What tools/setup, tools/build and tools/demo share. Sourced from the root of the tree; `tool` is the name they speak under.

say() { printf '%s: %s\n' "$tool" "$*" >&2; }

fail() { # TITLE LINE...
  printf 'error: %s\n' "$1" >&2
  shift
  if [ $# -gt 0 ]; then printf '  %s\n' "$@" >&2; fi
  exit 1
}

# --- Ctrl-C ------------------------------------------------------------------------------------------------------------------

child='' # the command under way
exec {own_stderr}>&2

# A command that a signal to this script alone ends too. It gets Ctrl-C as any command of the foreground does: bash would have
# it ignored in the background.
in_hand() {
  (trap - INT QUIT TERM HUP && exec "$@") &
  child=$!
  local status=0
  wait "$child" || status=$?
  child=''
  return "$status"
}

parent_of() { # PID
  local key value
  while read -r key value; do
    if [ "$key" = PPid: ]; then echo "$value"; fi
  done <"/proc/$1/status"
}

tree_of() { # PID: itself and all below it
  local each
  echo "$1"
  for each in $(cat "/proc/$1/task/"*/children 2>/dev/null || true); do tree_of "$each"; done
}

# Ctrl-C has reached the children already, and they clean up behind themselves; the rest is for one that does not.
end_child() {
  local all each signal
  [ -n "$child" ] || return 0
  mapfile -t all < <(tree_of "$child")
  for signal in 0 INT TERM KILL; do
    for each in "${all[@]}"; do kill -"$signal" "$each" 2>/dev/null || true; done
    for each in {1..20}; do
      kill -0 "$child" 2>/dev/null || return 0
      sleep 0.1
      if [ "$signal" = 0 ] && [ "$each" -ge 3 ]; then break; fi
    done
  done
}

interrupted() {
  trap '' INT TERM HUP
  exec >&"$own_stderr" 2>&1 # a command in hand has lent us its own, which may be the line's or a log
  end_child
  end_line
  say "interrupted; run the same command again, it goes on"
  exit 130
}

stop_on_interrupt() { trap interrupted INT TERM HUP; }

# --- The line that moves -----------------------------------------------------------------------------------------------------

line='' line_pid='' watch=''

# What is written to descriptor $line goes through FILTER to tools/progress.
start_line() { # FILTER WORD...
  exec {line}> >(trap '' INT; "$@" | tools/progress "$tool")
  line_pid=$!
}

# A process that looks on and reports, until end_line.
start_watch() { # COMMAND WORD...
  "$@" >&"$line" 2>/dev/null &
  watch=$!
}

end_line() {
  if [ -n "$watch" ]; then kill "$watch" 2>/dev/null && wait "$watch" 2>/dev/null || true; fi
  if [ -n "$line" ]; then exec {line}>&- && wait "$line_pid" || true; fi
  line='' watch=''
}

# --- One at a time in a tree -------------------------------------------------------------------------------------------------

command_of() { tr '\0' ' ' <"/proc/$1/cmdline" | sed 's/ $//'; }

# The `make` this runs under, which is what a person has started; else this script.
whole_command() {
  local pid=$$ depth
  for depth in 1 2 3; do
    pid=$(parent_of "$pid")
    if [ "$pid" -le 1 ]; then break; fi
    if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = make ]; then
      echo "$pid $(command_of "$pid")"
      return
    fi
  done
  echo "$$ $(command_of $$)"
}

# Two in one tree would write the same files: set-ups, and builds of one preset. The lock is the open file: it ends with the last
# process that holds it.
lock_tree() { # FILE
  mkdir -p build
  command -v flock >/dev/null || return 0
  exec {tree_lock}>>"$1"
  if ! flock -n "$tree_lock"; then
    local pid='' command=''
    read -r pid command <"$1" || true
    say "waiting for \`$command\` (process $pid), which is at work in this tree"
    in_hand flock "$tree_lock" || fail "$1 cannot be locked" "where: $PWD/$1"
  fi
  whole_command >"$1"
}

# --- A full disk -------------------------------------------------------------------------------------------------------------

free_mib() { df -Pm "$1" | { read -r _; read -r _ _ _ free _; echo "$free"; }; }

# Two folders can be full: the one that is written to, and the one for temporary files.
fail_for_disk() { # FOLDER NEEDED_MIB LOG
  local full=$1 temporary=${TMPDIR:-/tmp}
  if [ "$(free_mib "$temporary")" -lt "$(free_mib "$1")" ]; then full=$temporary; fi
  fail "no space left on the disk of $full" "what:  $(free_mib "$full") MiB are free there; all of it takes about $2 MiB" \
    "where: $3" "do:    free some space and run the same command again, it goes on"
}
