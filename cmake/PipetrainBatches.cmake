# How the build reads headers few times: sources are compiled in batches (unity builds), each with a precompiled header.
#
# A batch is a generated file that includes up to PIPETRAIN_BATCH_SIZE sources. It names them relative to the repository, so that it
# is the same text in every clone and ccache finds what another clone compiled; CMake's own UNITY_BUILD writes absolute paths.
# What two sources of one target define in anonymous namespaces must therefore have different names.
# -DPIPETRAIN_BATCHES=OFF (the preset "plain") compiles every source by itself and without precompiled headers.
option(PIPETRAIN_BATCHES "Compile sources in batches and with precompiled headers" ON)
set(PIPETRAIN_BATCH_SIZE 16 CACHE STRING "The largest number of sources in one batch")
mark_as_advanced(PIPETRAIN_BATCH_SIZE)

# pipetrain_sources(TARGET [BY_ERRORS] [TOGETHER files...] [FAST files...] SOURCES files...): adds the sources to the target, the
# .cpp files in batches. A source that has compile options or definitions of its own stays single. Those of TOGETHER make a batch of
# their own, so that the compiler can inline their calls of each other. Those of FAST make batches that are compiled with -O2 where the
# rest of the target is not. With BY_ERRORS, sources that core/error.hpp reaches share batches with each other only, so that a change
# of this header leaves the batches of the others as they are; a source that begins or ceases to include it moves when CMake next runs.
function(pipetrain_sources target)
  cmake_parse_arguments(ARG "BY_ERRORS" "" "TOGETHER;FAST;SOURCES" ${ARGN})
  set(together "")
  set(fast "")
  set(batched "")
  foreach(source IN LISTS ARG_SOURCES)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
    file(RELATIVE_PATH name ${CMAKE_CURRENT_SOURCE_DIR} ${source})
    pipetrain_is_single(${source} single)
    target_sources(${target} PRIVATE ${source})
    if(single)
      set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)  # its options may differ from the header's
    else()
      set_source_files_properties(${source} PROPERTIES HEADER_FILE_ONLY ON)  # editors see it; its batch compiles it
      if(name IN_LIST ARG_TOGETHER)
        list(APPEND together ${source})
      elseif(name IN_LIST ARG_FAST)
        list(APPEND fast ${source})
      else()
        list(APPEND batched ${source})
      endif()
    endif()
  endforeach()
  if(together)
    pipetrain_add_batch(${target} together ${together})
  endif()
  list(LENGTH batched count)
  if(ARG_BY_ERRORS AND count GREATER PIPETRAIN_BATCH_SIZE)  # the sources of one batch stay in one, which is cheaper than two
    pipetrain_divide_by_header(throwing batched core/error.hpp ${batched})
    pipetrain_add_batches(${target} throwing_ ${throwing})
  endif()
  pipetrain_add_batches(${target} "" ${batched})
  pipetrain_add_batches(${target} fast_ ${fast})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
endfunction()

# Divides sources into those that the header reaches and the others.
function(pipetrain_divide_by_header reached_list other_list header)
  set(reached_sources "")
  set(other_sources "")
  foreach(source IN LISTS ARGN)
    pipetrain_reaches(${header} ${source} reached)
    if(reached)
      list(APPEND reached_sources ${source})
    else()
      list(APPEND other_sources ${source})
    endif()
  endforeach()
  set(${reached_list} ${reached_sources} PARENT_SCOPE)
  set(${other_list} ${other_sources} PARENT_SCOPE)
endfunction()

# Tells whether a file includes the header, by itself or through headers of the repository, and remembers the answer.
function(pipetrain_reaches header file result)
  get_property(answer GLOBAL PROPERTY "pipetrain ${file} reaches ${header}")
  if("${answer}" STREQUAL "")
    set(answer OFF)
    file(STRINGS ${file} lines REGEX "^#include \"")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^#include \"([^\"]*)\".*" "\\1" included ${line})
      if(included STREQUAL header)
        set(answer ON)
      elseif(EXISTS ${PROJECT_SOURCE_DIR}/${included})
        pipetrain_reaches(${header} ${PROJECT_SOURCE_DIR}/${included} answer)
      endif()
      if(answer)
        break()
      endif()
    endforeach()
    set_property(GLOBAL PROPERTY "pipetrain ${file} reaches ${header}" ${answer})
  endif()
  set(${result} ${answer} PARENT_SCOPE)
endfunction()

function(pipetrain_add_batches target label)
  set(batched ${ARGN})
  list(SORT batched)
  list(LENGTH batched count)
  math(EXPR batches "(${count} + ${PIPETRAIN_BATCH_SIZE} - 1) / ${PIPETRAIN_BATCH_SIZE}")
  set(begin 0)
  while(begin LESS count)  # of equal size, but for one
    math(EXPR size "(${count} - ${begin} + ${batches} - 1) / ${batches}")
    list(SUBLIST batched ${begin} ${size} sources)
    pipetrain_add_batch(${target} ${label}${batches} ${sources})
    math(EXPR begin "${begin} + ${size}")
    math(EXPR batches "${batches} - 1")
  endwhile()
endfunction()

function(pipetrain_add_batch target label)
  set(text "")
  foreach(source IN LISTS ARGN)
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${source})
    string(APPEND text "#include \"${name}\"\n")
  endforeach()
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${target}_${label}.cpp)
  file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)  # keeps its time when the text is the same
  target_sources(${target} PRIVATE ${file})
  if(label MATCHES "^fast_" AND NOT PIPETRAIN_SANITIZE)
    set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS -O2)
  endif()
endfunction()

function(pipetrain_is_single source result)
  set(${result} ON PARENT_SCOPE)
  if(NOT PIPETRAIN_BATCHES OR NOT source MATCHES "\\.cpp$")
    return()
  endif()
  foreach(property COMPILE_OPTIONS COMPILE_DEFINITIONS)
    get_source_file_property(value ${source} ${property})
    if(value)
      return()
    endif()
  endforeach()
  set(${result} OFF PARENT_SCOPE)
endfunction()

# Tests run once for each time that they are compiled, and most of their time is spent in the rooms that they test.
set(pipetrain_test_optimization $<$<COMPILE_LANGUAGE:CXX>:-O1>)

set(pipetrain_standard_headers <algorithm> <array> <atomic> <chrono> <cmath> <cstddef> <cstdint> <cstring> <filesystem> <functional>
  <map> <memory> <mutex> <optional> <span> <string> <string_view> <thread> <utility> <vector>)

# pipetrain_precompile(TARGET KIND): compiles the target's C++ sources with the precompiled header of that kind, which all targets of
# the kind share: one costs as much as several batches save. Kinds: "library", position-independent, with fmt where the target links it;
# "program"; "test", a program with Catch2.
function(pipetrain_precompile target kind)
  get_target_property(links ${target} LINK_LIBRARIES)
  if(kind STREQUAL "library" AND "fmt::fmt" IN_LIST links)
    set(kind fmt_library)
  endif()
  if(PIPETRAIN_BATCHES AND NOT PIPETRAIN_SANITIZE)  # GCC 12 crashes when a target with a sanitizer has more options than the header
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # so that ccache sees which header it is
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
    endif()
    target_precompile_headers(${target} REUSE_FROM pipetrain_precompiled_${kind})
  endif()
endfunction()

# Called once, in the top folder, before the first room: where the headers lie does not depend on which rooms are built.
function(pipetrain_add_precompiled kind)
  set(target pipetrain_precompiled_${kind})
  set(source ${PROJECT_BINARY_DIR}/precompiled/${kind}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "" @ONLY)
  add_library(${target} OBJECT EXCLUDE_FROM_ALL ${source})
  target_compile_features(${target} PRIVATE cxx_std_20)
  if(kind STREQUAL "test")
    target_compile_options(${target} PRIVATE ${pipetrain_test_optimization})
  else()
    pipetrain_warnings(${target})  # -Wpedantic changes what the compiler predefines, and so must be the same in both
  endif()
  set(headers ${pipetrain_standard_headers})
  if(kind MATCHES "library")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()
  if(NOT kind STREQUAL "library")
    target_link_libraries(${target} PRIVATE fmt::fmt)
    list(APPEND headers <fmt/format.h>)
  endif()
  if(kind STREQUAL "test")
    find_path(catch2_all catch2/catch_all.hpp)
    if(catch2_all)
      list(APPEND headers <catch2/catch_all.hpp>)
    else()
      list(APPEND headers <catch2/catch.hpp>)
    endif()
  endif()
  target_precompile_headers(${target} PRIVATE ${headers})
endfunction()
