# What we take from the distribution; tools/setup installs all of it. fmt and spdlog stay out of our headers: libtorch
# ships another fmt, and a torch room that saw both would not link.

# Libraries of a folder of one's own (WEFT_DEPS) need each other: cpp-httplib needs Brotli, spdlog needs fmt. A program's RUNPATH
# does not count for what its libraries need, its RPATH does.
if(CMAKE_PREFIX_PATH)
  add_link_options(-Wl,--disable-new-dtags)
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_path(WEFT_XXHASH_INCLUDE xxhash.h REQUIRED)
mark_as_advanced(WEFT_XXHASH_INCLUDE)
find_path(WEFT_YAML_INCLUDE yaml.h)
find_library(WEFT_YAML_LIBRARY NAMES yaml)
mark_as_advanced(WEFT_YAML_INCLUDE WEFT_YAML_LIBRARY)
if(NOT WEFT_YAML_INCLUDE OR NOT WEFT_YAML_LIBRARY)
  message(FATAL_ERROR "libyaml was not found: libyaml-dev is missing.\n"
    "  Run tools/setup, or: apt-get install libyaml-dev")
endif()

# Debian splits cpp-httplib into a header and a library built with all its options; elsewhere it is one header.
find_path(WEFT_HTTPLIB_INCLUDE httplib.h)
find_library(WEFT_HTTPLIB_LIBRARY NAMES cpp-httplib)
mark_as_advanced(WEFT_HTTPLIB_INCLUDE WEFT_HTTPLIB_LIBRARY)
if(NOT WEFT_HTTPLIB_INCLUDE)
  message(FATAL_ERROR "cpp-httplib was not found: libcpp-httplib-dev is missing.\n"
    "  Run tools/setup, or: apt-get install libcpp-httplib-dev")
endif()
set(WEFT_HTTPLIB_SWITCHES "")
if(WEFT_HTTPLIB_LIBRARY)
  set(WEFT_HTTPLIB_SWITCHES CPPHTTPLIB_OPENSSL_SUPPORT CPPHTTPLIB_ZLIB_SUPPORT CPPHTTPLIB_BROTLI_SUPPORT)
  # Its header names OpenSSL's types, a part of which lies in a folder of the architecture.
  find_path(WEFT_OPENSSL_INCLUDE openssl/ssl.h)
  find_path(WEFT_OPENSSL_ARCH_INCLUDE openssl/opensslconf.h)
  mark_as_advanced(WEFT_OPENSSL_INCLUDE WEFT_OPENSSL_ARCH_INCLUDE)
  if(NOT WEFT_OPENSSL_INCLUDE OR NOT WEFT_OPENSSL_ARCH_INCLUDE)
    message(FATAL_ERROR "OpenSSL's headers, which Debian's cpp-httplib needs, were not found.\n"
      "  Run tools/setup, or: apt-get install libssl-dev")
  endif()
else()
  set(WEFT_HTTPLIB_LIBRARY "")
endif()

set(WEFT_IO_URING OFF)
set(WEFT_IO_URING_WHY "switched off by WEFT_WITH_IO_URING")
if(WEFT_WITH_IO_URING)
  find_path(WEFT_URING_INCLUDE liburing.h)
  find_library(WEFT_URING_LIBRARY NAMES uring)
  mark_as_advanced(WEFT_URING_INCLUDE WEFT_URING_LIBRARY)
  if(WEFT_URING_INCLUDE AND WEFT_URING_LIBRARY)
    set(WEFT_IO_URING ON)
    set(WEFT_IO_URING_WHY "${WEFT_URING_LIBRARY}")
  else()
    set(WEFT_IO_URING_WHY "liburing-dev is not installed; a thread pool does the same work")
  endif()
endif()

if(WEFT_WITH_TESTS)
  find_package(GTest REQUIRED)
endif()
