# weft/base/build_info.h is fixed at configure time; the commit is read at build time into one tiny source, so that a new commit
# recompiles nothing else.
foreach(flag WEFT_TORCH_GLOO WEFT_NCCL WEFT_TORCH_CUDA WEFT_IO_URING)
  set(${flag}_01 0)
  if(${flag})
    set(${flag}_01 1)
  endif()
endforeach()
if(NOT WEFT_TORCH_VERSION)
  set(WEFT_TORCH_VERSION "none")
endif()
string(REGEX REPLACE "([\\\"])" "\\\\\\1" WEFT_NCCL_WHY_ESCAPED "${WEFT_NCCL_WHY}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/build_info.h.in ${PROJECT_BINARY_DIR}/generated/weft/base/build_info.h @ONLY)
add_custom_target(weft_commit
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUT=${PROJECT_BINARY_DIR}/generated/commit.cpp
          -P ${CMAKE_CURRENT_LIST_DIR}/commit.cmake
  BYPRODUCTS ${PROJECT_BINARY_DIR}/generated/commit.cpp COMMENT "" VERBATIM)
