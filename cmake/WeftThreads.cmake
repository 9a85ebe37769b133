# ThreadSanitizer has nothing to say of a test with one thread, and compiling it takes as long as any other. THREADS of
# weft_room() and weft_test() names the test files that have threads, in the test itself or in what it calls; the preset tsan
# builds these alone. tools/nightly tsan_all runs every file under it (WEFT_ALL_TESTS_HAVE_THREADS), for one that lacks the word.
option(WEFT_ALL_TESTS_HAVE_THREADS "with the preset tsan: every test file, not those of THREADS alone" OFF)
mark_as_advanced(WEFT_ALL_TESTS_HAVE_THREADS)
set(weft_words_of_threads "std::j?thread|std::async|run_ranks_as_threads|RankProcesses ")

# weft_files_to_test(OUT TEST "FILES" "THREADS"): the files of a test binary that this build compiles; none: no such binary.
function(weft_files_to_test out test files threads)
  foreach(file IN LISTS threads)
    if(NOT file IN_LIST files)
      message(FATAL_ERROR "${test}: ${file} stands under THREADS and not among its files.")
    endif()
  endforeach()
  if(WEFT_SANITIZE STREQUAL "thread" AND NOT WEFT_ALL_TESTS_HAVE_THREADS)
    weft_refuse_unmarked_threads(${test} "${files}" "${threads}")
    set(files ${threads})
  endif()
  set(${out} "${files}" PARENT_SCOPE)
endfunction()

function(weft_refuse_unmarked_threads test files threads)
  foreach(file IN LISTS files)
    file(STRINGS ${file} lines LIMIT_COUNT 1 REGEX "${weft_words_of_threads}")
    if(lines AND NOT file IN_LIST threads)
      message(FATAL_ERROR "${test}: ${file} has threads.\n  do: list it under THREADS in ${CMAKE_CURRENT_LIST_FILE}")
    endif()
  endforeach()
endfunction()
