# weft_room(NAME SOURCES ... [LINKS ...] [PRIVATE_LINKS ...] [TESTS ...] [THREADS ...] [TEST_LINKS ...] [UNITY n]
#           [TORCH] [COLD] [NOT_INSTALLED])
#   One room = one static library weft_NAME (alias weft::NAME), and one test binary NAME_test from its *_test.cpp files.
#   LINKS are exactly the rooms in this room's row of tools/layers.txt; TORCH puts libtorch within reach. NOT_INSTALLED keeps
#   it out of the package: the command line is for binaries, not for those who link weft::weft. UNITY: files compiled as one
#   (WeftUnity.cmake). COLD: no step of training waits for it; compiled with -O1, which takes three quarters of the time.
#
# weft_test(NAME SOURCES ... [THREADS ...] [LINKS ...] [TORCH] [DEADLINE_S n])
#   A GoogleTest binary. Every suite is a ctest test (WeftSuites.cmake), and every case of it has a deadline; tests/support
#   prints the stacks of one that hangs. THREADS: those of its files that have threads (WeftThreads.cmake).
#   Each source is recorded, so that tools/check_tests.py can find a *_test.cpp that no target builds.
#
# weft_test_program(NAME SOURCES ... [LINKS ...])
#   A program that tests run. Like test binaries it is built by the target `tests`, not by a plain build.

set(weft_rooms "" CACHE INTERNAL "")
set(weft_test_sources "" CACHE INTERNAL "")
# The optimizer takes most of a test file's compile time, and nothing waits for a test file's own code.
set(weft_test_options -O0)
if(WEFT_WITH_TESTS)
  add_custom_target(tests)
endif()

function(weft_room name)
  cmake_parse_arguments(arg "TORCH;COLD;NOT_INSTALLED" "UNITY" "SOURCES;LINKS;PRIVATE_LINKS;TESTS;THREADS;TEST_LINKS" ${ARGN})
  set(torch)
  if(arg_TORCH)
    set(torch TORCH)
  endif()
  add_library(weft_${name} STATIC ${arg_SOURCES})
  add_library(weft::${name} ALIAS weft_${name})
  set_target_properties(weft_${name} PROPERTIES EXPORT_NAME ${name})
  target_link_libraries(weft_${name} PUBLIC weft_flags ${arg_LINKS} PRIVATE ${arg_PRIVATE_LINKS})
  if(arg_TORCH)
    target_link_libraries(weft_${name} PUBLIC weft::torch)
  endif()
  set(cold)
  if(arg_COLD AND CMAKE_BUILD_TYPE STREQUAL Release)
    target_compile_options(weft_${name} PRIVATE -O1)
    set(cold COLD)
  endif()
  weft_unity(weft_${name} FILES ${arg_UNITY})
  weft_precompile(weft_${name} ${torch} ${cold})
  if(NOT arg_NOT_INSTALLED)
    set(weft_rooms ${weft_rooms} weft_${name} CACHE INTERNAL "")
  endif()
  if(arg_TESTS AND WEFT_WITH_TESTS)
    weft_test(${name}_test SOURCES ${arg_TESTS} THREADS ${arg_THREADS} LINKS weft::${name} ${arg_TEST_LINKS} ${torch})
  endif()
endfunction()

function(weft_test_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} EXCLUDE_FROM_ALL ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINKS})
  target_compile_options(${name} PRIVATE ${weft_test_options})
  add_dependencies(tests ${name})
endfunction()

function(weft_test name)
  cmake_parse_arguments(arg "TORCH" "DEADLINE_S" "SOURCES;THREADS;LINKS" ${ARGN})
  if(NOT arg_DEADLINE_S)
    set(arg_DEADLINE_S 60)
  endif()
  weft_files_to_test(arg_SOURCES ${name} "${arg_SOURCES}" "${arg_THREADS}")
  if(NOT arg_SOURCES)
    return()
  endif()
  set(torch)
  if(arg_TORCH)
    set(torch TORCH)
  endif()
  weft_test_program(${name} SOURCES ${arg_SOURCES} LINKS ${arg_LINKS} weft_test_support $<$<BOOL:${arg_TORCH}>:weft::torch>)
  weft_unity(${name})
  weft_precompile(${name} TEST ${torch})
  set(slowdown 1)  # by which tests/support stretches its deadlines
  if(WEFT_SANITIZE)
    set(slowdown 3)
  endif()
  weft_suites(${name} DEADLINE_S ${arg_DEADLINE_S} SLOWDOWN ${slowdown})
  foreach(source ${arg_SOURCES})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    set(weft_test_sources ${weft_test_sources} ${source} CACHE INTERNAL "")
  endforeach()
endfunction()
