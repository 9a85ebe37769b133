# weft_suites(TARGET DEADLINE_S n SLOWDOWN n): ctest runs TARGET once for each of its suites, as the test TARGET:Suite.
#   Not once for each case, as gtest_discover_tests does: starting a process that loads libtorch takes longer than most cases.
#   The suites are listed when tests are run (cmake/WeftListSuites.cmake), so that building does not wait for it.
#   DEADLINE_S is what the watchdog in tests/support gives each case, SLOWDOWN by how much a sanitizer stretches it.
function(weft_suites target)
  cmake_parse_arguments(arg "" "DEADLINE_S;SLOWDOWN" "" ${ARGN})
  math(EXPR limit_s "${arg_SLOWDOWN} * ${arg_DEADLINE_S}")
  set(folder ${PROJECT_BINARY_DIR}/suites)
  set(script ${folder}/${target}_include.cmake)
  file(GENERATE OUTPUT ${script} CONTENT "include([=[${PROJECT_SOURCE_DIR}/cmake/WeftListSuites.cmake]=])
weft_add_suites(${target} [=[$<TARGET_FILE:${target}>]=] ${limit_s} ${arg_DEADLINE_S} [=[${folder}]=] [=[${script}]=])\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${script})
endfunction()
