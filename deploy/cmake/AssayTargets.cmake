# Helpers that keep each folder's CMakeLists.txt to a list of files.

# assay_library(NAME SOURCES... [DEPS targets...]): a static library.
function(assay_library name)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS})
endfunction()

# assay_test(NAME SOURCES... [DEPS targets...] [LABELS labels...] [TIMEOUT seconds]): one GoogleTest program, one ctest entry.
# The test runs with ASSAY_SOURCE_DIR and ASSAY_BIN_DIR in its environment.
function(assay_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
    ENVIRONMENT "ASSAY_SOURCE_DIR=${CMAKE_SOURCE_DIR};ASSAY_BIN_DIR=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
endfunction()
