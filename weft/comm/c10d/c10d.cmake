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

if(WEFT_NCCL)
  list(APPEND weft_c10d_sources c10d/nccl_calls.cpp c10d/nccl_group.cpp)
else()
  list(APPEND weft_c10d_sources c10d/no_nccl_group.cpp)
endif()

function(weft_use_c10d target)
  # c10d's header for Gloo needs Gloo's own, which no wheel has: declarations of what it names are enough.
  target_include_directories(${target} SYSTEM PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/c10d/gloo_headers)
  target_compile_definitions(${target} PRIVATE $<$<BOOL:${WEFT_TORCH_GLOO}>:USE_C10D_GLOO>)
  if(WEFT_NCCL)
    target_include_directories(${target} SYSTEM PRIVATE ${WEFT_NCCL_INCLUDES})
    target_compile_definitions(${target} PRIVATE USE_C10D_NCCL)
    target_link_libraries(${target} PRIVATE ${WEFT_NCCL_LIBRARY})
  endif()
endfunction()
