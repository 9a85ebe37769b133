# weft_batch(TARGET): compiles the target's files in the batches that tools/batches.py made, where WEFT_BATCHES is on.
#   A batch is one translation unit (CMake's unity build). A file in no batch is compiled alone, and so are all where there
#   is no Python. Two files that come to share a private name want other batches: configure again (tools/build does).

if(WEFT_BATCHES)
  find_package(Python3 COMPONENTS Interpreter QUIET)
  if(Python3_FOUND)
    execute_process(COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/batches.py
      OUTPUT_VARIABLE weft_batch_lines OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    string(REPLACE "\n" ";" weft_batch_lines "${weft_batch_lines}")
    foreach(line IN LISTS weft_batch_lines)
      string(REPLACE " " ";" line "${line}")
      list(GET line 0 path)
      list(GET line 1 weft_batch_of_${path})
    endforeach()
  endif()
endif()

function(weft_batch target)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE OUTPUT_VARIABLE path)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    if(weft_batch_of_${path})
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${weft_batch_of_${path}})
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${WEFT_BATCHES} UNITY_BUILD_MODE GROUP)
endfunction()
