# The part of comm that includes c10d: sources, tests, and weft_use_c10d(TARGET) for what they need.
set(weft_c10d_sources
  c10d/bounded_caller.cpp
  c10d/flights.cpp
  c10d/gloo_group.cpp
  c10d/network.cpp
  c10d/roll_call.cpp
  c10d/roll_call_records.cpp
  c10d/roll_call_watch.cpp
  c10d/store.cpp
  c10d/wire_collectives.cpp
  c10d/wire_reductions.cpp)
set(weft_c10d_tests
  c10d/flights_test.cpp
  c10d/gloo_faults_test.cpp
  c10d/gloo_group_test.cpp
  c10d/nccl_group_test.cpp
  c10d/roll_call_test.cpp
  c10d/store_test.cpp)

if(WEFT_TORCH_GLOO)
  list(APPEND weft_c10d_sources c10d/gloo_wire.cpp)
else()
  list(APPEND weft_c10d_sources c10d/no_gloo_wire.cpp)
endif()

# NCCL's header and library come from a wheel beside torch's. The CUDA runtime's headers do too, but for those under
# crt/, which only the toolkit and a wheel of their own have.
set(weft_with_nccl OFF)
if(WEFT_TORCH_NCCL)
  cmake_path(GET WEFT_TORCH_ROOT PARENT_PATH site_packages)
  file(GLOB cuda_folders "${site_packages}/nvidia/cu[0-9]*/include" "${site_packages}/nvidia/cuda_*/include"
    "/usr/local/cuda*/include" "/usr/local/cuda*/targets/*/include")
  find_path(WEFT_NCCL_INCLUDE nccl.h HINTS "${site_packages}/nvidia/nccl/include")
  find_library(WEFT_NCCL_LIBRARY NAMES libnccl.so.2 nccl HINTS "${site_packages}/nvidia/nccl/lib")
  find_path(WEFT_CUDA_INCLUDE cuda_runtime_api.h HINTS $ENV{CUDA_HOME}/include ${cuda_folders})
  find_path(WEFT_CUDA_CRT_INCLUDE crt/host_config.h HINTS $ENV{CUDA_HOME}/include ${cuda_folders})
  mark_as_advanced(WEFT_NCCL_INCLUDE WEFT_NCCL_LIBRARY WEFT_CUDA_INCLUDE WEFT_CUDA_CRT_INCLUDE)
  if(WEFT_NCCL_INCLUDE AND WEFT_NCCL_LIBRARY AND WEFT_CUDA_INCLUDE AND WEFT_CUDA_CRT_INCLUDE)
    set(weft_with_nccl ON)
  else()
    message(WARNING "weft is built without NCCL: nccl.h, libnccl, or the CUDA headers cuda_runtime_api.h and "
      "crt/host_config.h are missing.\n"
      "  Install nvidia-nccl and nvidia-cuda-crt beside torch, or set CUDA_HOME.")
  endif()
endif()
if(weft_with_nccl)
  list(APPEND weft_c10d_sources c10d/nccl_calls.cpp c10d/nccl_group.cpp)
else()
  list(APPEND weft_c10d_sources c10d/no_nccl_group.cpp)
endif()

function(weft_use_c10d target)
  # c10d's header for Gloo needs Gloo's own, which no wheel has: declarations of what it names are enough.
  target_include_directories(${target} SYSTEM PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/c10d/gloo_headers)
  target_compile_definitions(${target} PRIVATE $<$<BOOL:${WEFT_TORCH_GLOO}>:USE_C10D_GLOO>)
  if(weft_with_nccl)
    target_include_directories(${target} SYSTEM PRIVATE
      ${WEFT_NCCL_INCLUDE} ${WEFT_CUDA_INCLUDE} ${WEFT_CUDA_CRT_INCLUDE})
    target_compile_definitions(${target} PRIVATE USE_C10D_NCCL)
    target_link_libraries(${target} PRIVATE ${WEFT_NCCL_LIBRARY})
  endif()
endfunction()
