# cmake -DOUTPUT=FILE.cc "-DASSETS=NAME=PATH;NAME=PATH..." -P embed.cmake
#
# Writes a source with one function std::string_view NAME() per file. A script element ends at the first "</script" and a
# style element at "</style", and browsers read CR LF as LF before they check a digest: files with either are refused.
file(WRITE ${OUTPUT}.tmp "// Written by client/html/embed.cmake.\n\n#include \"client/html/assets.h\"\n\nnamespace assay {\n")
foreach(asset IN LISTS ASSETS)
  string(REGEX MATCH "^([A-Za-z0-9]+)=(.*)$" found "${asset}")
  set(name ${CMAKE_MATCH_1})
  set(path ${CMAKE_MATCH_2})
  file(READ ${path} hex HEX)
  string(TOLOWER "${hex}" hex)
  # "</script" and "</style" in either case, "<!--", CR; only at whole bytes.
  foreach(bad 3c2f736372697074 3c2f7374796c65 3c2f534352495054 3c212d2d)
    string(FIND "${hex}" ${bad} at)
    math(EXPR odd "${at} & 1")
    if(NOT at EQUAL -1 AND NOT odd)
      message(FATAL_ERROR "${path} holds the bytes ${bad} (hexadecimal), which end or change the element that it is put into")
    endif()
  endforeach()
  string(REGEX MATCHALL ".." bytes "${hex}")
  list(LENGTH bytes length)
  list(FIND bytes 0d cr)
  if(NOT cr EQUAL -1)
    message(FATAL_ERROR "${path} holds a carriage return at byte ${cr}")
  endif()
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  file(APPEND ${OUTPUT}.tmp "namespace {\nconstexpr unsigned char k${name}[] = {\n${hex}};\n}  // namespace\n"
    "std::string_view ${name}() {\n  return {reinterpret_cast<const char*>(k${name}), ${length}};\n}\n")
endforeach()
file(APPEND ${OUTPUT}.tmp "}  // namespace assay\n")
file(RENAME ${OUTPUT}.tmp ${OUTPUT})
