# Refuses a compiler that is too old for the C++20 we write, before it says so a thousand times in its own words.
# GCC 10 lacks `using enum`, Clang 15 std::source_location with GCC's library. What CI compiles with is newer: GCC 12, Clang 19.
set(weft_oldest_GNU 11)
set(weft_oldest_Clang 16)
set(weft_oldest "${weft_oldest_${CMAKE_CXX_COMPILER_ID}}")
if(weft_oldest AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS weft_oldest)
  message(FATAL_ERROR "the C++ compiler is too old: ${CMAKE_CXX_COMPILER} is ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\n"
    "  what:  weft needs GCC ${weft_oldest_GNU} or newer, or Clang ${weft_oldest_Clang} or newer\n"
    "  do:    CXX=/path/to/a/newer/compiler make; Debian 12 and Ubuntu 24.04 have one: apt-get install g++")
endif()
