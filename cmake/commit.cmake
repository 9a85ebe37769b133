cmake_minimum_required(VERSION 3.25)
# Writes commit.cpp when the commit changed, and only then.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude *
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR NOT commit)
  set(commit "unknown")
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "namespace weft {\nextern const char* const kBuildCommit;\nconst char* const kBuildCommit = \"${commit}\";\n}\n")
