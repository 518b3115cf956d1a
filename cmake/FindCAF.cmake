# The C++ Actor Framework's core library, which ships no CMake config in the versions we build on.
# Defines the target CAF::core. Set CAF_ROOT to look in another prefix.
find_path(CAF_INCLUDE_DIR caf/all.hpp)
find_library(CAF_CORE_LIBRARY caf_core)
if(CAF_INCLUDE_DIR AND EXISTS ${CAF_INCLUDE_DIR}/caf/config.hpp)
  file(STRINGS ${CAF_INCLUDE_DIR}/caf/config.hpp CAF_VERSION_LINE REGEX "^#define CAF_VERSION +[0-9]+")
  if(CAF_VERSION_LINE MATCHES "CAF_VERSION +([0-9]+)")  # major * 10000 + minor * 100 + patch
    math(EXPR CAF_MAJOR "${CMAKE_MATCH_1} / 10000")
    math(EXPR CAF_MINOR "${CMAKE_MATCH_1} / 100 % 100")
    math(EXPR CAF_PATCH "${CMAKE_MATCH_1} % 100")
    set(CAF_VERSION ${CAF_MAJOR}.${CAF_MINOR}.${CAF_PATCH})
  endif()
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAF REQUIRED_VARS CAF_CORE_LIBRARY CAF_INCLUDE_DIR VERSION_VAR CAF_VERSION)
if(CAF_FOUND AND NOT TARGET CAF::core)
  add_library(CAF::core UNKNOWN IMPORTED)
  set_target_properties(CAF::core PROPERTIES
    IMPORTED_LOCATION ${CAF_CORE_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${CAF_INCLUDE_DIR})
endif()
mark_as_advanced(CAF_INCLUDE_DIR CAF_CORE_LIBRARY)
