# `cmake --install` gives a find_package(weft) package: weft::weft is the whole library, weft::<room> each room.
function(weft_print_summary)
  message(STATUS "weft ${PROJECT_VERSION} (${CMAKE_BUILD_TYPE}${WEFT_SANITIZE})")
  if(WEFT_WITH_TORCH)
    message(STATUS "  torch     ${WEFT_TORCH_VERSION} in ${WEFT_TORCH_ROOT} (gloo ${WEFT_TORCH_GLOO}, nccl ${WEFT_NCCL}, cuda ${WEFT_TORCH_CUDA})")
  else()
    message(STATUS "  torch     off: torch-free rooms only")
  endif()
  # What the user should still know when the build has ended: a line each, which tools/build prints last.
  file(WRITE ${PROJECT_BINARY_DIR}/notes.txt "${weft_notes}")
  message(STATUS "  io_uring  ${WEFT_IO_URING} (${WEFT_IO_URING_WHY})")
endfunction()

add_library(weft_all INTERFACE)
add_library(weft::weft ALIAS weft_all)
set_target_properties(weft_all PROPERTIES EXPORT_NAME weft)
target_link_libraries(weft_all INTERFACE ${weft_rooms})

file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/test_sources.txt CONTENT "$<JOIN:${weft_test_sources},\n>\n")

install(TARGETS weft_all weft_flags ${weft_rooms} EXPORT weft-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT weft-targets NAMESPACE weft:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
install(DIRECTORY weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*_impl.h" EXCLUDE
  PATTERN "crash_env.h" EXCLUDE PATTERN "weft/cli" EXCLUDE)
install(FILES ${PROJECT_BINARY_DIR}/generated/weft/base/build_info.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weft/base)
configure_package_config_file(cmake/weft-config.cmake.in ${PROJECT_BINARY_DIR}/weft-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/weft-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weft-config.cmake ${PROJECT_BINARY_DIR}/weft-config-version.cmake cmake/WeftTorch.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
