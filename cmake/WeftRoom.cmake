# weft_room(NAME SOURCES ... [LINKS ...] [PRIVATE_LINKS ...] [TESTS ...] [TEST_LINKS ...] [TORCH] [NOT_INSTALLED])
#   One room = one static library weft_NAME (alias weft::NAME), and one test binary NAME_test from its *_test.cpp files.
#   LINKS are exactly the rooms in this room's row of tools/layers.txt; TORCH puts libtorch within reach. NOT_INSTALLED keeps
#   it out of the package: the command line is for binaries, not for those who link weft::weft.
#
# weft_test(NAME SOURCES ... [LINKS ...] [TORCH] [DEADLINE_S n])
#   A GoogleTest binary. Every case is a ctest case with a deadline; tests/support prints the stacks of one that hangs.
#   Each source is recorded, so that tools/check_tests.py can find a *_test.cpp that no target builds.

set(weft_rooms "" CACHE INTERNAL "")
set(weft_test_sources "" CACHE INTERNAL "")

function(weft_room name)
  cmake_parse_arguments(arg "TORCH;NOT_INSTALLED" "" "SOURCES;LINKS;PRIVATE_LINKS;TESTS;TEST_LINKS" ${ARGN})
  add_library(weft_${name} STATIC ${arg_SOURCES})
  add_library(weft::${name} ALIAS weft_${name})
  set_target_properties(weft_${name} PROPERTIES EXPORT_NAME ${name})
  target_link_libraries(weft_${name} PUBLIC weft_flags ${arg_LINKS} PRIVATE ${arg_PRIVATE_LINKS})
  if(arg_TORCH)
    target_link_libraries(weft_${name} PUBLIC weft::torch)
  endif()
  weft_batch(weft_${name})
  if(NOT arg_NOT_INSTALLED)
    set(weft_rooms ${weft_rooms} weft_${name} CACHE INTERNAL "")
  endif()
  if(arg_TESTS AND WEFT_WITH_TESTS)
    set(torch)
    if(arg_TORCH)
      set(torch TORCH)
    endif()
    weft_test(${name}_test SOURCES ${arg_TESTS} LINKS weft::${name} ${arg_TEST_LINKS} ${torch})
  endif()
endfunction()

function(weft_test name)
  cmake_parse_arguments(arg "TORCH" "DEADLINE_S" "SOURCES;LINKS" ${ARGN})
  if(NOT arg_DEADLINE_S)
    set(arg_DEADLINE_S 60)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINKS} weft_test_support)
  if(arg_TORCH)
    target_link_libraries(${name} PRIVATE weft::torch)
  endif()
  weft_batch(${name})
  # One parse of GoogleTest and the usual containers for all files of a binary, where there are enough to pay for it.
  list(LENGTH arg_SOURCES num_sources)
  if(num_sources GREATER 2)
    target_precompile_headers(${name} PRIVATE <gtest/gtest.h> <chrono> <filesystem> <functional> <map> <optional> <string> <thread> <vector>)
  endif()
  # The binary's own watchdog fires first, so that a hang ends with stacks; ctest's limit is the backstop.
  # Under sanitizers the watchdog waits three times as long.
  set(slowdown 1)
  if(WEFT_SANITIZE)
    set(slowdown 3)
    # Under a sanitizer the optimizer takes most of a test file's time, and nothing waits for a test file's own code.
    target_compile_options(${name} PRIVATE -O0)
  endif()
  math(EXPR backstop "${slowdown} * ${arg_DEADLINE_S} + 30")
  include(GoogleTest)
  # Listing a binary's tests loads it, libtorch too; the default of 5 s is too little for a machine that stands still at times.
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 TEST_PREFIX "${name}:"
    PROPERTIES TIMEOUT ${backstop} ENVIRONMENT "WEFT_TEST_DEADLINE_S=${arg_DEADLINE_S}" SKIP_RETURN_CODE 77)
  foreach(source ${arg_SOURCES})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    set(weft_test_sources ${weft_test_sources} ${source} CACHE INTERNAL "")
  endforeach()
endfunction()
