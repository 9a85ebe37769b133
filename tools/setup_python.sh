# The Python environment and torch, for tools/setup, which sources this.

# A file in .venv says what is being done to it, for as long as it is not done.
readonly unfinished=.venv/unfinished

is_unfinished() { [ -e $unfinished ]; }

torch_of() { "$1" -c 'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")' 2>/dev/null || true; }

# --- pip ---------------------------------------------------------------------------------------------------------------------

# Wheels that lie on this machine are not downloaded: "Processing /wheels/torch-2.13.0.whl (from ...)".
wheels_at_hand() { sed -nE 's/^ *Processing (.*\.whl)( \(from .*)?$/\1/p' "$1"; } # LOG

# The sizes that pip names in its log, all together: "Downloading torch-2.13.0-cp311-....whl (190.3 MB)".
bytes_to_come() { # LOG
  {
    sed -nE 's/^ *(Downloading|Using cached) [^ ]+\.(whl|tar\.gz) \(([0-9.]+) ([kMG]?B|bytes)\).*/\3 \4/p' "$1"
    wheels_at_hand "$1" | xargs -rd '\n' stat -c '%s bytes' 2>/dev/null || true
  } | awk 'BEGIN { k["kB"] = 1e3; k["MB"] = 1e6; k["GB"] = 1e9 } { sum += $1 * ($2 in k ? k[$2] : 1) } END { printf "%.0f\n", sum }'
}

bytes_at_hand() { { echo 0; wheels_at_hand "$1" | xargs -rd '\n' stat -c %s 2>/dev/null; } | awk '{ sum += $1 } END { printf "%.0f\n", sum }'; }

bytes_in() { du -sb "$1" 2>/dev/null | cut -f1; }

# What the wheels hold, unpacked: those that came lie in build/pip until pip ends.
bytes_to_unpack() { # LOG
  { find build/pip -name '*.whl'; wheels_at_hand "$1"; } | .venv/bin/python -IBc '
import sys, zipfile
print(sum(entry.file_size for path in sys.stdin for entry in zipfile.ZipFile(path.rstrip("\n")).infolist()))'
}

# pip of Debian 12 says nothing between the name of a file and the end of it, so the bytes on the disk are counted: first those
# that have come, then those that are unpacked. Each is one half.
pip_progress() { # LOG WHAT: until it is ended
  local before come total unpacked to_unpack='' never
  before=$(bytes_in .venv)
  exec {never}<> <(:) # nothing is ever written there: to read from it is to wait, without a process that has to be ended
  while true; do
    total=$(bytes_to_come "$1")
    if grep -q '^Installing collected packages' "$1"; then
      [ -n "$to_unpack" ] || to_unpack=$(bytes_to_unpack "$1" || echo $((3 * total)))
      unpacked=$(($(bytes_in .venv) - before))
      if [ "$unpacked" -gt "$to_unpack" ]; then unpacked=$to_unpack; fi
      echo "$((to_unpack + unpacked)) $((2 * to_unpack)) $2: unpacking"
    else
      come=$(($(bytes_in build/pip) + $(bytes_at_hand "$1")))
      echo "$((come < total ? come : total)) $((2 * total)) $2: downloading"
    fi
    read -rt 1 <&"$never" || true
  done
}

# Files to come go into build/, where there is room for gigabytes if anywhere. What pip compiles at once for each interpreter
# takes longer than to unpack torch, and Python does the same for the little that is ever imported.
pip_install() { # WHAT PACKAGE...
  local what=$1 log=build/setup-pip.log status=0
  shift
  mkdir -p build/pip
  echo "pip install $*" >$unfinished
  : >$log
  start_line cat
  start_watch pip_progress $log "$what"
  TMPDIR=$PWD/build/pip in_hand .venv/bin/python -m pip install --disable-pip-version-check --no-input --no-compile --progress-bar off "$@" \
    >$log 2>&1 || status=$?
  end_line
  rm -rf build/pip
  if [ $status -eq 0 ]; then rm $unfinished && return; fi
  if grep -q 'No space left on device' $log; then fail_for_disk "$PWD" 1600 $log; fi
  grep -E '^ERROR' $log >&2 || tail -n 5 $log >&2
  fail "pip could not install $*" "where: $log" "do:    check the network; an interpreter that has torch can be used instead: WEFT_PYTHON=/path/to/python"
}

# --- .venv -------------------------------------------------------------------------------------------------------------------

lacking() { .venv/bin/python -IB tools/venv_lacks.py "$@"; } # NAME...: those .venv does not have

# Why .venv cannot be used as it is; nothing when it can.
venv_problem() {
  local lacks
  if [ ! -e .venv ]; then echo none
  elif [ ! -x .venv/bin/python ] || ! lacks=$(lacking pip 2>/dev/null); then echo "its interpreter does not run"
  elif [ -n "$lacks" ]; then echo "it has no pip"
  elif is_unfinished && lacks=$(lacking --all) && [ -n "$lacks" ]; then echo "an installation was stopped in the middle of ${lacks//$'\n'/, }"
  elif lacks=$(lacking --whole torch) && [ -n "$lacks" ]; then echo "files of $lacks are missing"; fi
}

make_venv() { # INTERPRETER OPTION...
  local problem base=$1
  shift
  problem=$(venv_problem)
  case $problem in
    '') rm -f $unfinished && return ;;
    none) say "making .venv, a Python environment of weft's own, so that the system's stays as it is" ;;
    *) say "making .venv anew: $problem" ;;
  esac
  rm -rf .venv
  mkdir .venv
  echo "python -m venv" >$unfinished
  local log=build/setup-venv.log status=0
  start_line cat
  echo "0 0 making .venv" >&"$line"
  in_hand "$base" -m venv "$@" .venv >$log 2>&1 || status=$?
  end_line
  if [ $status -ne 0 ]; then
    if grep -q 'No space left on device' $log; then fail_for_disk "$PWD" 1600 $log; fi
    tail -n 5 $log >&2
    fail "$base cannot make a Python environment" "where: $log" "do:    apt-get install python3-venv"
  fi
  rm $unfinished
}

# Nothing is built with them: a machine that cannot have them can build all the same.
test_tools() {
  local lacks
  mapfile -t lacks < <(lacking "${TEST_TOOLS[@]}")
  if [ ${#lacks[@]} -eq 0 ]; then return; fi
  say "installing ${lacks[*]} into .venv, $1"
  pip_install "tools of the tests" "${TEST_TOOLS[@]}"
}

# An environment made for the tests stays the one that is used: the build would see a change where there is none.
has_test_tools() {
  local lacks
  [ -x .venv/bin/python ] && ! is_unfinished && lacks=$(lacking "${TEST_TOOLS[@]}") && [ -z "$lacks" ]
}

# --- Whose torch -------------------------------------------------------------------------------------------------------------

own_python() {
  make_venv python3
  if [ -n "$(lacking torch)" ]; then
    say "installing $TORCH into .venv: weft is built on its library (200 MB for the CPU, several GB with CUDA)"
    pip_install torch "$TORCH"
  fi
  if [ $with_tests = yes ]; then test_tools "for the tests"; fi
  python=$PWD/.venv/bin/python
  torch_root=$(torch_of "$python")
}

has_modules() { "$1" - "${@:2}" <<'PY' 2>/dev/null
import importlib.util, sys
sys.exit(any(importlib.util.find_spec(name) is None for name in sys.argv[1:]))
PY
}

# The user's torch stays as it is: what the tests need beside it goes into a .venv that sees the user's packages.
users_python() {
  command -v "$WEFT_PYTHON" >/dev/null || fail "WEFT_PYTHON is not an interpreter" "where: $WEFT_PYTHON"
  python=$(command -v "$WEFT_PYTHON")
  torch_root=$(torch_of "$python")
  [ -n "$torch_root" ] || fail "WEFT_PYTHON has no torch" "where: $python" "do:    $python -m pip install $TORCH, or leave WEFT_PYTHON out"
  if [ $with_tests = yes ]; then
    local modules=("${TEST_TOOLS[@]/#pytest-xdist/xdist}")
    if has_modules "$python" "${modules[@]/#pytest-timeout/pytest_timeout}"; then return; fi
    make_venv "$python" --system-site-packages
    test_tools "beside your torch"
  elif ! has_test_tools; then return; fi
  python=$PWD/.venv/bin/python
}

users_libtorch() {
  [ -f "$Torch_DIR/TorchConfig.cmake" ] || fail "Torch_DIR does not hold TorchConfig.cmake" "where: $Torch_DIR"
  torch_root=$(cd "$Torch_DIR/../../.." && pwd)
  python=$(command -v python3)
  if [ $with_tests = yes ]; then
    make_venv python3
    test_tools "for the tests"
  elif ! has_test_tools; then return; fi
  python=$PWD/.venv/bin/python
}

python_and_torch() {
  if [ -n "${WEFT_PYTHON:-}" ]; then users_python
  elif [ -n "${Torch_DIR:-}" ]; then users_libtorch
  else own_python; fi
  [ -f "$torch_root/lib/libtorch.so" ] || fail "torch has no libtorch.so" "where: $torch_root"
}

clang_tidy() {
  make_venv "$python" --system-site-packages
  if [ -z "$(lacking "$TIDY")" ]; then return; fi
  say "installing $TIDY into .venv, for tools/lint"
  pip_install clang-tidy "$TIDY"
}
