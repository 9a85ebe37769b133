# One set of compiler flags for everything: C++20, warnings are errors, symbols small enough to keep (stacks of hung ranks).
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# -g1 keeps function names and lines for stack dumps at a tenth of the size of -g.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
if(CMAKE_CXX_FLAGS_DEBUG STREQUAL "-g")  # CMake's own; the sanitizer presets bring theirs
  set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")
endif()

add_library(weft_flags INTERFACE)
# No -Wmissing-field-initializers: designated initialisers that leave fields at their defaults are how we write options.
# No -Wmaybe-uninitialized: GCC sees an empty std::optional as one that is read, in other places with each version and each grouping of
# files. clang-tidy's analyzer looks for the same by paths.
set(weft_warnings -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wno-missing-field-initializers
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> -Werror)
target_compile_options(weft_flags INTERFACE "$<BUILD_INTERFACE:${weft_warnings}>")
target_include_directories(weft_flags INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

if(WEFT_SANITIZE)
  if(WEFT_WITH_TORCH)
    message(FATAL_ERROR "WEFT_SANITIZE=${WEFT_SANITIZE} covers the torch-free rooms only: libtorch is not instrumented. Add -DWEFT_WITH_TORCH=OFF, or use the asan and tsan presets.")
  endif()
  target_compile_options(weft_flags INTERFACE -fsanitize=${WEFT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(weft_flags INTERFACE -fsanitize=${WEFT_SANITIZE})
endif()
# Fuzzing is clang's: a sanitizer build by clang has the fuzz targets too.
set(WEFT_FUZZ OFF)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # GCC's build is the judge of warnings; clang has some of its own about GCC's library.
  target_compile_options(weft_flags INTERFACE -Wno-error)
  if(WEFT_SANITIZE MATCHES address)
    set(WEFT_FUZZ ON)
    # The rooms are watched too: the fuzzer learns from the branches an input takes.
    target_compile_options(weft_flags INTERFACE -fsanitize=fuzzer-no-link)
  endif()
endif()
