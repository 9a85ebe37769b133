# cuda_declared: compiles, and no more, what is compiled only where CUDA is. CI's torch is one for CPUs, so it is given declarations
# of what torch's headers and ours name of CUDA and NCCL.
set(WEFT_OPTIM ${PROJECT_SOURCE_DIR}/weft/optim)
set(kernels ${CMAKE_CURRENT_BINARY_DIR}/device_kernels.cpp)
# As weft/optim/CMakeLists.txt joins them for the device's compiler, which sees them at run time alone.
file(CONFIGURE OUTPUT ${kernels} @ONLY CONTENT [[
#include <device_words.h>
#include "@WEFT_OPTIM@/core/factors.h"
#include "@WEFT_OPTIM@/device_arguments_impl.h"
#include "@WEFT_OPTIM@/device_kernels.cu"
]])
add_library(cuda_declared OBJECT EXCLUDE_FROM_ALL ${kernels})
set_source_files_properties(${kernels} PROPERTIES
  COMPILE_DEFINITIONS "WEFT_UPDATE=Adam;WEFT_PARAM=0;WEFT_STATE=1;WEFT_GRAD=2;WEFT_COPY=1"
  COMPILE_OPTIONS "-Wno-unknown-pragmas;-Wno-uninitialized")  # what the device's own assembler writes is not seen here
target_include_directories(cuda_declared SYSTEM PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/cuda_headers)
target_compile_options(cuda_declared PRIVATE -O0 -g0)
target_link_libraries(cuda_declared PRIVATE weft::comm)
add_dependencies(tests cuda_declared)
if(NOT WEFT_NCCL)
  set(c10d ${PROJECT_SOURCE_DIR}/weft/comm/c10d)
  target_sources(cuda_declared PRIVATE ${c10d}/nccl_calls.cpp ${c10d}/nccl_group.cpp)
  # One after the other in one compilation: nearly all of it goes into torch's headers.
  set_source_files_properties(${c10d}/nccl_calls.cpp ${c10d}/nccl_group.cpp PROPERTIES
    UNITY_GROUP nccl)
  target_compile_definitions(cuda_declared PRIVATE USE_C10D_NCCL)
  set_target_properties(cuda_declared PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endif()
