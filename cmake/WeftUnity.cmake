# weft_unity(TARGET [FILES n]): compiles n files of a target as one (16 unless told), in the order in which CMakeLists.txt lists them.
#   Most of a file's compile time is headers that its neighbours include too. Files of a group share one anonymous namespace: two
#   private things of one name do not compile. -DWEFT_UNITY=OFF (the debug and tidy presets) compiles each file alone.
#   Not CMake's UNITY_BUILD, which includes files by their absolute paths: a compiler cache would take the groups of another clone for others.
#
# weft_own_flags(OPTIONS option... FILES file...): files that need flags of their own; before the target is made. They stay out of groups.
#   They may not use a precompiled header either: GCC would take the optimization flags of the header's making for theirs, without a word.
#
# weft_alone(FILES file...): the same for files that are to be compiled alone for another reason.

function(weft_unity target)
  cmake_parse_arguments(arg "" "FILES" "" ${ARGN})
  if(NOT WEFT_UNITY)
    return()
  endif()
  if(NOT arg_FILES)
    set(arg_FILES 16)
  endif()
  get_target_property(sources ${target} SOURCES)
  set(members)
  set(number 0)
  foreach(source IN LISTS sources)
    get_source_file_property(alone ${source} SKIP_UNITY_BUILD_INCLUSION)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE OUTPUT_VARIABLE path)
    cmake_path(IS_PREFIX PROJECT_BINARY_DIR ${path} is_made)
    if(NOT alone AND NOT is_made)
      list(APPEND members ${source})
    endif()
    list(LENGTH members count)
    if(count EQUAL arg_FILES)
      weft_group(${target} ${number} ${members})
      math(EXPR number "${number} + 1")
      set(members)
    endif()
  endforeach()
  list(LENGTH members count)
  if(count GREATER 1)
    weft_group(${target} ${number} ${members})
  endif()
endfunction()

# One file that includes the members; the members themselves are listed, and not compiled.
function(weft_group target number)
  set(text)
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE OUTPUT_VARIABLE path)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    string(APPEND text "#include \"${path}\"\n")
  endforeach()
  set(group ${CMAKE_CURRENT_BINARY_DIR}/${target}_${number}.cpp)
  file(CONFIGURE OUTPUT ${group} CONTENT "${text}" @ONLY)
  set_source_files_properties(${ARGN} PROPERTIES HEADER_FILE_ONLY ON)
  target_sources(${target} PRIVATE ${group})
endfunction()

function(weft_own_flags)
  cmake_parse_arguments(arg "" "" "OPTIONS;FILES" ${ARGN})
  set_source_files_properties(${arg_FILES} PROPERTIES COMPILE_OPTIONS "${arg_OPTIONS}" SKIP_PRECOMPILE_HEADERS ON)
  weft_alone(FILES ${arg_FILES})
endfunction()

function(weft_alone)
  cmake_parse_arguments(arg "" "" "FILES" ${ARGN})
  set_source_files_properties(${arg_FILES} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
