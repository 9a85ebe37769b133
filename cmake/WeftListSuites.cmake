# Read by ctest before each run: weft_add_suites() makes one ctest test of each suite of a GoogleTest binary. The suites are
# listed again when the binary is newer than its list. A binary that is not there, or that cannot list its suites, is a
# failing test with the reason.
#
# The list, FOLDER/NAME_suites.cmake, is what ctest reads; FOLDER/NAME_cases.txt has one Suite.Case per line for tools/test.

# A test that fails and says why. Nothing is kept of it: the next run looks again.
function(weft_add_failing_test name text folder)
  file(WRITE "${folder}/${name}.txt" "${text}\n")
  add_test("${name}" sh -c "cat '${folder}/${name}.txt' >&2; exit 1")
endfunction()

# "Suite.\n  Case  # GetParam() = 1\n" and the like; the values of parameters may hold anything and are cut off first.
function(weft_read_listing listing out_suites out_cases)
  string(REGEX REPLACE " *#[^\n]*" "" listing "${listing}")
  string(REPLACE "\n" ";" lines "${listing}")
  set(suites "")
  set(cases "")
  foreach(line IN LISTS lines)
    if(line MATCHES "^([^ ]+)\\.$")
      set(suite "${CMAKE_MATCH_1}")
      list(APPEND suites "${suite}")
    elseif(line MATCHES "^  ([^ ]+)$")
      list(APPEND cases "${suite}.${CMAKE_MATCH_1}")
    endif()
  endforeach()
  set(${out_suites} "${suites}" PARENT_SCOPE)
  set(${out_cases} "${cases}" PARENT_SCOPE)
endfunction()

# The lines for one suite. A suite of which every case is switched off is shown as such and not started.
function(weft_suite_script name binary suite cases limit_s deadline_s out)
  set(enabled 0)
  set(all 0)
  foreach(case IN LISTS cases)
    string(FIND "${case}" "${suite}." at)
    if(NOT at EQUAL 0)
      continue()
    endif()
    math(EXPR all "${all} + 1")
    if(NOT case MATCHES "(^|\\.|/)DISABLED_")
      math(EXPR enabled "${enabled} + 1")
    endif()
  endforeach()
  # The watchdog in the binary ends a case that hangs, with stacks. This limit is for a watchdog that hangs too.
  math(EXPR backstop_s "${all} * ${limit_s} + 30")
  set(disabled "")
  if(enabled EQUAL 0)
    set(disabled " DISABLED TRUE")
  endif()
  set(${out} "add_test([=[${name}:${suite}]=] [=[${binary}]=] [=[--gtest_filter=${suite}.*]=])
set_tests_properties([=[${name}:${suite}]=] PROPERTIES TIMEOUT ${backstop_s} SKIP_RETURN_CODE 77 LABELS ${name}
  ENVIRONMENT WEFT_TEST_DEADLINE_S=${deadline_s}${disabled})\n" PARENT_SCOPE)
endfunction()

function(weft_write_list name binary limit_s deadline_s listing folder)
  weft_read_listing("${listing}" suites cases)
  set(script "")
  foreach(suite IN LISTS suites)
    weft_suite_script("${name}" "${binary}" "${suite}" "${cases}" ${limit_s} ${deadline_s} lines)
    string(APPEND script "${lines}")
  endforeach()
  list(JOIN cases "\n" text)
  # Renamed into place: two ctest may list at the same time.
  string(RANDOM LENGTH 8 mark)
  foreach(file cases.txt suites.cmake)
    set(content "${script}")
    if(file STREQUAL "cases.txt")
      set(content "${text}\n")
    endif()
    file(WRITE "${folder}/${name}_${file}.${mark}" "${content}")
    file(RENAME "${folder}/${name}_${file}.${mark}" "${folder}/${name}_${file}")
  endforeach()
endfunction()

# LIMIT_S: how long the watchdog gives one case. DEADLINE_S: what it is told, before the slowness of a sanitizer.
function(weft_add_suites name binary limit_s deadline_s folder made_by)
  set(list "${folder}/${name}_suites.cmake")
  if(NOT EXISTS "${binary}")
    cmake_path(GET folder PARENT_PATH build)
    weft_add_failing_test("${name}:is_not_built"
      "${binary} is not built.\n  do: cmake --build ${build} --target ${name}" "${folder}")
    return()
  endif()
  if("${binary}" IS_NEWER_THAN "${list}" OR "${made_by}" IS_NEWER_THAN "${list}")
    execute_process(COMMAND "${binary}" --gtest_list_tests TIMEOUT 60
      OUTPUT_VARIABLE listing ERROR_VARIABLE problem RESULT_VARIABLE code)
    if(NOT code STREQUAL "0")
      file(REMOVE "${list}")
      weft_add_failing_test("${name}:cannot_list_its_cases"
        "${binary} could not list its cases (${code}):\n${problem}${listing}\n  do: ${binary} --gtest_list_tests" "${folder}")
      return()
    endif()
    weft_write_list("${name}" "${binary}" ${limit_s} ${deadline_s} "${listing}" "${folder}")
  endif()
  include("${list}")
endfunction()
