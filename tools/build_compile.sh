# Compiling what is configured, with one line that says how far it is; for tools/build, which sources this.

readonly build_log=build/build-$preset.log
readonly costs_file=build/costs-$preset.txt
# What a build takes, measured with GCC 12.
if [ $with_tests = yes ]; then needed_mib=1500; else needed_mib=800; fi
# There while the last build of these targets has come to its end.
readonly needed_mib whole_file=$folder/weft-whole-$with_tests

# The objects of another clone serve this one: paths are told relative to the tree, and the folder that is written into debug
# information does not count. Precompiled headers are found again by what they contain, not by their times.
use_ccache() {
  local path=${WEFT_CCACHE:-} store=${CCACHE_DIR:-${XDG_CACHE_HOME:-~/.cache}/ccache}
  export WEFT_CCACHE=off
  if [ "$path" = off ] || ! path=$(command -v "${path:-ccache}"); then return; fi
  if ! mkdir -p "$store" 2>/dev/null || [ ! -w "$store" ]; then
    say "compiling without ccache: its folder $store cannot be written"
    return
  fi
  export WEFT_CCACHE=$path CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
  export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
}

targets() {
  if [ -n "$only" ]; then echo "${only//,/ }" && return; fi
  case $with_tests,$preset in
    yes,asan | yes,tsan) echo tests ;;
    yes,*) echo all tests ;;
    *) echo all ;;
  esac
}

# Lists the steps to come with what each costs. CMake's own rules run first when they are due: they may change the rest.
plan_steps() {
  local steps
  if ! steps=$(NINJA_STATUS='' ninja -C "$folder" -n $(targets) 2>&1); then
    echo "$steps" >"$build_log"
    return 1
  fi
  if grep -q 'Re-running CMake' <<<"$steps"; then
    in_hand ninja -C "$folder" build.ninja >"$build_log" 2>&1 || return
    steps=$(NINJA_STATUS='' ninja -C "$folder" -n $(targets) 2>&1) || return
  fi
  grep -E '^(Building|Linking|Generating) ' <<<"$steps" | tools/build_costs "$folder" >"$costs_file" || true
}

reason() {
  if [ ! -s "$folder/.ninja_log" ]; then echo "nothing is built yet"
  elif [ ! -f "$whole_file" ]; then echo "these are not built yet"
  else echo "they, or what they are made from, changed"; fi
}

# Reads what ninja says, [DONE/ALL] STEP, and tells tools/progress the cost of the steps that are done.
ninja_progress() {
  trap '' INT
  local -A cost=()
  local each step all=0 num_steps=0 done_cost=0 num_done=0 room
  while IFS=$'\t' read -r each step; do
    cost[$step]=$each all=$((all + each)) num_steps=$((num_steps + 1))
  done <"$costs_file"
  echo "0 $all starting with $jobs jobs"
  while IFS= read -r step; do
    [[ $step =~ ^\[[0-9]+/[0-9]+\]\ (.*)$ ]] || continue
    step=${BASH_REMATCH[1]}
    [ -n "$step" ] && [ -n "${cost[$step]:-}" ] || continue
    done_cost=$((done_cost + cost[$step])) num_done=$((num_done + 1))
    case $step in
      Building*) room=${step##* } && room=${room%%/CMakeFiles/*} ;;
      *) room=${step##*/} ;;
    esac
    echo "$done_cost $all $room, $num_done of $num_steps done"
  done
}

logged_progress() { tee -i "$build_log" | ninja_progress; }

run_ninja() {
  local num_steps
  num_steps=$(wc -l <"$costs_file")
  if [ "$num_steps" -eq 0 ]; then
    in_hand ninja -C "$folder" -j "$jobs" $(targets) >"$build_log" 2>&1
    return
  fi
  say "$num_steps files to compile and link into $folder with $jobs jobs: $(reason)"
  rm -f "$whole_file"
  local status=0
  start_line logged_progress
  NINJA_STATUS='[%f/%t] ' in_hand ninja -C "$folder" -j "$jobs" $(targets) >&"$line" 2>&1 || status=$?
  end_line
  return $status
}

# What is in the folder does not fit the tree, as after a change of branch; the sources themselves may be well.
is_stale() {
  grep -qE "^ninja: (error|fatal): (loading|build\.ninja|rebuilding|.*missing and no known rule)|^CMake Error" "$build_log"
}

repeated_options() {
  if [ -n "$only" ]; then echo " --only $only"; elif [ $with_tests = yes ]; then echo " --tests"; fi
}

explain_failure() {
  if grep -q 'No space left on device' "$build_log"; then fail_for_disk "$PWD/build" "$needed_mib" "$build_log"; fi
  grep -vE '^\[[0-9]+/[0-9]+\] (Building|Linking|Generating)' "$build_log" >&2 || true
  if grep -qE 'Killed signal terminated program|virtual memory exhausted|annot allocate memory|out of memory allocating' "$build_log"; then
    fail "the compiler ran out of memory" "what:  $jobs ran at a time" "where: $build_log" "do:    make JOBS=1"
  fi
  fail "$folder could not be built" "where: $build_log" "do:    tools/build $preset$(repeated_options) repeats just this"
}

compile() {
  if ! { plan_steps && run_ninja; }; then
    is_stale || explain_failure
    configure_anew "it does not fit the tree any more"
    { plan_steps && run_ninja; } || explain_failure
  fi
  : >"$whole_file"
}
