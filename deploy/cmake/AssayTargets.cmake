# Helpers that keep each folder's CMakeLists.txt to a list of files.

# Nearly every source reads the same heavy headers (JSON, absl status, GoogleTest). Reading them once halves a cold build.
# Sources still include what they use: -DASSAY_PCH=OFF compiles them without.
option(ASSAY_PCH "Precompile the headers that most sources share" ON)
if(ASSAY_PCH AND NOT ASSAY_SANITIZE)
  set(ASSAY_PCH_HEADERS <algorithm> <array> <cstdint> <functional> <map> <memory> <optional> <set> <span> <string> <string_view>
    <utility> <vector> <absl/status/status.h> <absl/status/statusor.h> <nlohmann/json.hpp>)
  add_library(assay_pch_library OBJECT ${CMAKE_SOURCE_DIR}/deploy/cmake/pch.cc)
  target_link_libraries(assay_pch_library PRIVATE absl::status absl::statusor nlohmann_json::nlohmann_json)
  target_precompile_headers(assay_pch_library PRIVATE ${ASSAY_PCH_HEADERS})
  add_library(assay_pch_test OBJECT ${CMAKE_SOURCE_DIR}/deploy/cmake/pch.cc)
  target_link_libraries(assay_pch_test PRIVATE absl::status absl::statusor nlohmann_json::nlohmann_json GTest::gmock GTest::gtest)
  target_compile_options(assay_pch_test PRIVATE -O1)
  target_precompile_headers(assay_pch_test PRIVATE ${ASSAY_PCH_HEADERS} <gmock/gmock.h> <gtest/gtest.h>)
  # A header precompiled through ccache made g++ 12 crash when it was read.
  set_target_properties(assay_pch_library assay_pch_test PROPERTIES CXX_COMPILER_LAUNCHER "")
endif()

# assay_pch(NAME [test]): lets a target read the precompiled headers.
function(assay_pch name)
  if(NOT TARGET assay_pch_library)
    return()
  endif()
  if("test" IN_LIST ARGN)
    target_precompile_headers(${name} REUSE_FROM assay_pch_test)
  else()
    target_precompile_headers(${name} REUSE_FROM assay_pch_library)
  endif()
endfunction()

# assay_library(NAME SOURCES... [DEPS targets...]): a static library; with -O3 where ASSAY_KERNELS is set.
function(assay_library name)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS})
  if(ASSAY_KERNELS)
    target_compile_options(${name} PRIVATE -O3)  # the precompiled headers are -O2 and could not be read
  else()
    assay_pch(${name})
  endif()
endfunction()

# assay_test(NAME SOURCES... [DEPS targets...] [LABELS labels...] [TIMEOUT seconds]): one GoogleTest program, one ctest entry.
# The test runs with ASSAY_SOURCE_DIR and ASSAY_BIN_DIR in its environment.
function(assay_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest GTest::gtest_main)
  # Tests are compiled once and run once: optimising them costs more than it gives.
  target_compile_options(${name} PRIVATE -O1)
  if(NOT ASSAY_KERNELS)
    assay_pch(${name} test)  # OpenMP, which kernels use, makes them unreadable
  endif()
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * ${ASSAY_TIMEOUT_FACTOR}")
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
    ENVIRONMENT "ASSAY_SOURCE_DIR=${CMAKE_SOURCE_DIR};ASSAY_BIN_DIR=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
endfunction()
