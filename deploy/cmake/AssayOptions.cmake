# Build-wide options and compiler flags.

# One kind of position-independent code for libraries and programs, so that both can read one precompiled header.
add_compile_options(-fPIC)

set(ASSAY_SANITIZE "" CACHE STRING "Sanitizers to build with, as given to -fsanitize")
option(ASSAY_FUZZ "Build the libFuzzer programs of tests/fuzz (clang only)" OFF)
set(ASSAY_LIBTORCH "" CACHE PATH "A libtorch tree to use instead of Debian's libtorch-dev")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# Folders with kernels add -O3 (worker/CMakeLists.txt).
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

find_program(ASSAY_CCACHE ccache)
if(ASSAY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # ccache takes precompiled headers only with this sloppiness.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${ASSAY_CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-fpch-preprocess)
  endif()
endif()

# g++ 12 reports these five falsely once std::string operations are inlined.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(ASSAY_FALSE_ALARMS -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread
    -Wno-format-truncation)
endif()
# -ffp-contract=off: a fused multiply-add appears only where the source says std::fma, so that the same source gives the
# same bits under every instruction set.
add_compile_options(-Wall -Wextra -Werror -Wno-unused-parameter ${ASSAY_FALSE_ALARMS} -ffp-contract=off
  -fno-fast-math)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_options(-g1)
endif()
if(ASSAY_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "ASSAY_FUZZ needs clang: configure with the preset 'fuzz' (tests/fuzz/run.sh does)")
  endif()
  # Counters of what is reached, in every library; the programs of tests/fuzz add the fuzzer itself.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
set(ASSAY_TIMEOUT_FACTOR 1)  # of every test's time limit
if(ASSAY_SANITIZE)
  set(ASSAY_TIMEOUT_FACTOR 10)
  add_compile_options(-fsanitize=${ASSAY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${ASSAY_SANITIZE})
  add_compile_definitions(ASSAY_SANITIZED=1)
  # Sanitizers make g++ 12 warn falsely, maybe-uninitialized above all, and clang warns of other things than g++; the
  # plain builds hold the tree to its warnings.
  add_compile_options(-Wno-error)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-maybe-uninitialized)
  endif()
endif()

# Nothing is linked that is not used, so a program's direct NEEDED entries are its real dependencies
# (tests/link_rules.sh checks them).
add_link_options(-Wl,--as-needed)
find_program(ASSAY_LLD ld.lld)
if(ASSAY_LLD)
  add_link_options(-fuse-ld=lld)
endif()
