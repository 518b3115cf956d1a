# For Find modules of libraries that come without a CMake package: an imported target of a header and a library.
#
#   pipetrain_import_library(PACKAGE TARGET HEADER LIBRARY)
#
# Looks for both, sets PACKAGE_FOUND as find_package() expects, and defines TARGET where they are there. PACKAGE_ROOT names another
# prefix.
include(FindPackageHandleStandardArgs)
macro(pipetrain_import_library package target header library)  # a macro: PACKAGE_FOUND is the caller's
  find_path(${package}_INCLUDE_DIR ${header})
  find_library(${package}_LIBRARY ${library})
  find_package_handle_standard_args(${package} REQUIRED_VARS ${package}_LIBRARY ${package}_INCLUDE_DIR)
  if(${package}_FOUND AND NOT TARGET ${target})
    add_library(${target} UNKNOWN IMPORTED)
    set_target_properties(${target} PROPERTIES
      IMPORTED_LOCATION ${${package}_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${${package}_INCLUDE_DIR})
  endif()
  mark_as_advanced(${package}_INCLUDE_DIR ${package}_LIBRARY)
endmacro()
