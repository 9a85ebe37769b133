# weft_precompile(TARGET [TORCH] [COLD] [TEST]): TARGET uses the preset's precompiled header that fits.
#   There are up to five, each made once and shared: for rooms below the torch line, for the cold ones of them, for those above it, and
#   for tests below and above. One for each set of optimization flags: GCC takes those of the header's making.
#   A file still includes what it uses: the tidy preset and those who build on an installed weft compile without.

# What most files reach through our headers. A header here is parsed once, but loaded with every file: rare ones cost more than they save.
set(weft_common_headers <algorithm> <array> <atomic> <chrono> <cstdint> <deque> <exception> <filesystem> <functional> <map> <memory> <mutex>
  <optional> <set> <span> <sstream> <string> <string_view> <thread> <unordered_map> <utility> <variant> <vector>)
set(weft_torch_headers <ATen/core/Tensor.h> <c10/core/Device.h> <c10/core/Event.h> <c10/core/GradMode.h> <c10/core/ScalarType.h>)
set(weft_torch_test_headers <ATen/TensorOperators.h> <ATen/ops/arange.h> <ATen/ops/ones.h> <ATen/ops/zeros.h>)

# Targets share a header only where they compile alike: executables as position-independent as libraries.
set(CMAKE_CXX_COMPILE_OPTIONS_PIE -fPIC)

function(weft_precompile target)
  cmake_parse_arguments(arg "TORCH;COLD;TEST" "" "" ${ARGN})
  set(owner weft_headers)
  set(headers ${weft_common_headers})
  set(links weft_flags)
  set(options)
  if(arg_TORCH)
    string(APPEND owner _torch)
    list(APPEND headers ${weft_torch_headers})
    list(APPEND links weft::torch)
  endif()
  if(arg_COLD)
    string(APPEND owner _cold)
    set(options -O1)
  endif()
  if(arg_TEST)
    string(APPEND owner _test)
    list(APPEND headers <gtest/gtest.h>)
    list(APPEND links GTest::gtest)
    set(options ${weft_test_options})
  endif()
  if(arg_TORCH AND arg_TEST)
    list(APPEND headers ${weft_torch_test_headers})
  endif()
  if(NOT TARGET ${owner})
    weft_precompiled_header(${owner} "${headers}" "${links}" "${options}")
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()

# CMake wants the header to belong to a target, and the target to have a source.
function(weft_precompiled_header name headers links options)
  set(source ${PROJECT_BINARY_DIR}/generated/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "// Only its precompiled header is of use.\n")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${source})
  target_link_libraries(${name} PRIVATE ${links})
  target_compile_options(${name} PRIVATE ${options})
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    # The header's file would hold the time of its making, and no compiler cache would know it again.
    target_compile_options(${name} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
  target_precompile_headers(${name} PRIVATE ${headers})
endfunction()
