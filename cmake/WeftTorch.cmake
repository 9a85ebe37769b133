# Finds libtorch and makes the target weft::torch. We do not use find_package(Torch): for a CUDA build of torch it insists on a CUDA
# toolkit even where none of our code needs a CUDA compiler, so pip's default wheel would not configure on a bare machine.
#
# Where it looks, in order: WEFT_TORCH_ROOT (the folder with include/ and lib/), Torch_DIR (as for find_package), the
# python3 on PATH. Sets WEFT_TORCH_ROOT, WEFT_TORCH_VERSION, WEFT_TORCH_CUDA, WEFT_TORCH_NCCL, WEFT_TORCH_GLOO.

function(weft_locate_torch out)
  set(root "${WEFT_TORCH_ROOT}")
  set(hint "${Torch_DIR}")
  if(NOT hint)
    set(hint "$ENV{Torch_DIR}")
  endif()
  if(NOT root AND hint)
    cmake_path(SET root NORMALIZE "${hint}/../../..")
  endif()
  if(NOT root)
    execute_process(COMMAND python3 -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
      OUTPUT_VARIABLE root OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  if(NOT EXISTS "${root}/lib/libtorch.so")
    message(FATAL_ERROR "libtorch was not found (looked in '${root}').\n"
      "  Run tools/setup, or point -DWEFT_TORCH_ROOT= at the folder that holds torch's include/ and lib/.")
  endif()
  set(${out} "${root}" PARENT_SCOPE)
endfunction()

function(weft_torch_version root out)
  set(header "${root}/include/torch/headeronly/version.h")
  if(NOT EXISTS ${header})
    set(header "${root}/include/torch/csrc/api/include/torch/version.h")
  endif()
  file(STRINGS ${header} lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
  string(REGEX REPLACE "[^0-9;]" "" numbers "${lines}")
  list(JOIN numbers "." version)
  set(${out} "${version}" PARENT_SCOPE)
endfunction()

weft_locate_torch(WEFT_TORCH_ROOT)
set(WEFT_TORCH_ROOT "${WEFT_TORCH_ROOT}" CACHE PATH "the folder that holds torch's include/ and lib/" FORCE)
weft_torch_version("${WEFT_TORCH_ROOT}" WEFT_TORCH_VERSION)
if(WEFT_TORCH_VERSION VERSION_LESS 2.11)
  message(FATAL_ERROR "weft needs torch 2.11 or newer, found ${WEFT_TORCH_VERSION} in ${WEFT_TORCH_ROOT}.")
endif()

set(weft_torch_lib "${WEFT_TORCH_ROOT}/lib")
set(weft_torch_libraries "${weft_torch_lib}/libtorch_cpu.so" "${weft_torch_lib}/libc10.so")
set(WEFT_TORCH_CUDA OFF)
set(WEFT_TORCH_NCCL OFF)
if(EXISTS "${weft_torch_lib}/libtorch_cuda.so")
  set(WEFT_TORCH_CUDA ON)
  list(APPEND weft_torch_libraries "${weft_torch_lib}/libtorch_cuda.so" "${weft_torch_lib}/libc10_cuda.so")
endif()
# A symbol's name in the library's string table is proof enough that the backend was compiled in.
foreach(backend GLOO NCCL)
  set(library "${weft_torch_lib}/libtorch_cpu.so")
  if(backend STREQUAL NCCL)
    set(library "${weft_torch_lib}/libtorch_cuda.so")
  endif()
  set(WEFT_TORCH_${backend} OFF)
  string(REPLACE "GLOO" "ProcessGroupGloo" symbol ${backend})
  string(REPLACE "NCCL" "ProcessGroupNCCL" symbol ${symbol})
  if(EXISTS ${library})
    execute_process(COMMAND grep -c -a -m1 ${symbol} ${library} RESULT_VARIABLE missing OUTPUT_QUIET ERROR_QUIET)
    if(missing EQUAL 0)
      set(WEFT_TORCH_${backend} ON)
    endif()
  endif()
endforeach()

if(NOT TARGET weft::torch)
  add_library(weft::torch INTERFACE IMPORTED GLOBAL)
  set_target_properties(weft::torch PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${WEFT_TORCH_ROOT}/include;${WEFT_TORCH_ROOT}/include/torch/csrc/api/include"
    INTERFACE_LINK_DIRECTORIES "${weft_torch_lib}"
    # --no-as-needed: libtorch_cuda registers its kernels from static initialisers, no symbol of it is ever named.
    INTERFACE_LINK_LIBRARIES "-Wl,--no-as-needed;${weft_torch_libraries};-Wl,--as-needed")
endif()
