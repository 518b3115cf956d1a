# Apache Arrow with its Parquet library, 19 or newer: Arrow::parquet. Arrow_ROOT names another prefix, or the folder of the Python
# package pyarrow, which has the headers and both libraries.
include(FindPackageHandleStandardArgs)
find_path(Arrow_INCLUDE_DIR parquet/arrow/reader.h)
if(Arrow_INCLUDE_DIR)
  file(STRINGS ${Arrow_INCLUDE_DIR}/arrow/util/config.h arrow_lines REGEX "define ARROW_VERSION_(MAJOR|MINOR|PATCH) ")
  foreach(part MAJOR MINOR PATCH)
    string(REGEX REPLACE ".*ARROW_VERSION_${part} ([0-9]+).*" "\\1" arrow_${part} "${arrow_lines}")
  endforeach()
  set(Arrow_VERSION ${arrow_MAJOR}.${arrow_MINOR}.${arrow_PATCH})
  math(EXPR arrow_soversion "${arrow_MAJOR} * 100 + ${arrow_MINOR}")  # the wheel has no other name of a library
  foreach(library arrow parquet)
    find_library(Arrow_${library}_LIBRARY NAMES ${library} lib${library}.so.${arrow_soversion}
      HINTS ${Arrow_INCLUDE_DIR}/.. ${Arrow_INCLUDE_DIR}/../lib)
  endforeach()
endif()
find_package_handle_standard_args(Arrow REQUIRED_VARS Arrow_arrow_LIBRARY Arrow_parquet_LIBRARY Arrow_INCLUDE_DIR
  VERSION_VAR Arrow_VERSION)
if(Arrow_FOUND AND NOT TARGET Arrow::parquet)
  add_library(Arrow::arrow UNKNOWN IMPORTED)
  set_target_properties(Arrow::arrow PROPERTIES
    IMPORTED_LOCATION ${Arrow_arrow_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${Arrow_INCLUDE_DIR})
  add_library(Arrow::parquet UNKNOWN IMPORTED)
  set_target_properties(Arrow::parquet PROPERTIES
    IMPORTED_LOCATION ${Arrow_parquet_LIBRARY} INTERFACE_LINK_LIBRARIES Arrow::arrow)
endif()
mark_as_advanced(Arrow_INCLUDE_DIR Arrow_arrow_LIBRARY Arrow_parquet_LIBRARY)
