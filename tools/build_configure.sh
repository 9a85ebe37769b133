# How a build folder is configured, and when again; for tools/build, which sources this.

readonly configure_log=build/configure-$preset.log
# What the folder was configured with, in two parts: after a change of the first CMake starts from nothing.
readonly basis_file=$folder/weft-basis options_file=$folder/weft-options

declare -A cache=()

read_cache() {
  local key value
  cache=()
  [ -f "$folder/CMakeCache.txt" ] || return 0
  while IFS='=' read -r key value; do cache[${key%%:*}]=$value; done < <(
    grep -E '^(CMAKE_(HOME_DIRECTORY|GENERATOR|CXX_COMPILER|MAKE_PROGRAM|COMMAND)|WEFT_WITH_TESTS):' "$folder/CMakeCache.txt"
  )
}

# Anything but a full path was looked up on PATH, by CMake.
is_gone() { [[ ${1:-} = /* ]] && [ ! -x "$1" ]; }

basis() { printf '%s\n' "$PWD" "${CXX:-}" "$(cksum <CMakePresets.json)"; }

# Why what lies in the folder cannot be built on; nothing when it can.
problem_of_old() {
  if [ "${cache[CMAKE_HOME_DIRECTORY]:-}" != "$PWD" ]; then echo "it belongs to the tree ${cache[CMAKE_HOME_DIRECTORY]:-of another machine}"
  elif [ "${cache[CMAKE_GENERATOR]:-}" != Ninja ]; then echo "it was made for ${cache[CMAKE_GENERATOR]:-nothing}, not for Ninja"
  elif is_gone "${cache[CMAKE_CXX_COMPILER]:-}"; then echo "its compiler ${cache[CMAKE_CXX_COMPILER]} is gone"
  elif is_gone "${cache[CMAKE_MAKE_PROGRAM]:-}"; then echo "its ${cache[CMAKE_MAKE_PROGRAM]} is gone"
  elif is_gone "${cache[CMAKE_COMMAND]:-}"; then echo "its ${cache[CMAKE_COMMAND]} is gone"
  elif [ ! -f "$folder/build.ninja" ]; then echo "it was left half configured"
  elif [ ! -f "$basis_file" ]; then echo "another version of weft configured it"
  elif [ "$(basis)" != "$(<"$basis_file")" ]; then echo "the presets or the compiler asked for changed"; fi
}

# Tests that were asked for once stay configured: to go back and forth would configure each time. `all` does not build them.
options() {
  local tests=OFF
  if [ "$with_tests" = yes ] || [ "${cache[WEFT_WITH_TESTS]:-}" = ON ]; then tests=ON; fi
  echo "-DWEFT_WITH_TESTS=$tests"
  echo "-DCMAKE_CXX_COMPILER_LAUNCHER=$PWD/tools/compile"
  if [ -n "${WEFT_TORCH_ROOT:-}" ]; then echo "-DWEFT_TORCH_ROOT=$WEFT_TORCH_ROOT"; fi
  if [ -n "${WEFT_DEPS:-}" ]; then echo "-DCMAKE_PREFIX_PATH=$WEFT_DEPS"; fi
}

run_cmake() { # FLAG...
  local words status=0
  mapfile -t words < <(options)
  start_line cat
  echo "0 0 configuring $folder with CMake" >&"$line"
  in_hand cmake "$@" --preset "$preset" "${words[@]}" >"$configure_log" 2>&1 || status=$?
  end_line
  [ $status -eq 0 ] || return $status
  basis >"$basis_file"
  printf '%s\n' "${words[@]}" >"$options_file"
  grep -A2 -E '^-- weft [0-9]' "$configure_log" | sed 's/^-- /build: /' >&2 || true
}

explain_configure() {
  if grep -q 'No space left on device' "$configure_log"; then fail_for_disk "$PWD/build" "$needed_mib" "$configure_log"; fi
  cat "$configure_log" >&2
  if grep -qE 'No CMAKE_CXX_COMPILER could be found|is not a full path to an existing compiler|was not found in the PATH' "$configure_log"; then
    fail "there is no C++ compiler" "where: $configure_log" \
      "do:    tools/setup --lint installs g++ and clang++; CXX=/path/to/compiler names one of your own"
  fi
  fail "CMake could not configure $folder" "where: $configure_log"
}

configure_anew() { # REASON
  say "configuring $folder from nothing: $1"
  cache=()
  run_cmake --fresh || explain_configure
}

configure() {
  local problem
  read_cache
  mkdir -p "$folder"
  if [ ${#cache[@]} -eq 0 ]; then
    run_cmake --fresh || explain_configure
    return
  fi
  problem=$(problem_of_old)
  if [ -n "$problem" ]; then configure_anew "$problem"
  elif [ "$(options)" != "$(cat "$options_file" 2>/dev/null)" ]; then
    run_cmake || configure_anew "what lay there could not be configured again"
  fi
}
