# UCX, which carries bytes between processes; its own CMake package is missing or incomplete in some of its distributions.
# Defines the target UCX::ucp. Set UCX_ROOT to look in another prefix: one that was built with RDMA or CUDA support, say.
find_path(UCX_INCLUDE_DIR ucp/api/ucp.h)
find_library(UCX_UCP_LIBRARY ucp)
find_library(UCX_UCS_LIBRARY ucs)
if(UCX_INCLUDE_DIR AND EXISTS ${UCX_INCLUDE_DIR}/ucp/api/ucp_version.h)
  file(STRINGS ${UCX_INCLUDE_DIR}/ucp/api/ucp_version.h UCX_VERSION_LINES REGEX "^#define UCP_API_(MAJOR|MINOR) +[0-9]+")
  string(REGEX REPLACE ".*MAJOR +([0-9]+).*MINOR +([0-9]+).*" "\\1.\\2" UCX_VERSION "${UCX_VERSION_LINES}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(UCX REQUIRED_VARS UCX_UCP_LIBRARY UCX_UCS_LIBRARY UCX_INCLUDE_DIR
  VERSION_VAR UCX_VERSION)
if(UCX_FOUND AND NOT TARGET UCX::ucp)
  add_library(UCX::ucp UNKNOWN IMPORTED)
  set_target_properties(UCX::ucp PROPERTIES
    IMPORTED_LOCATION ${UCX_UCP_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${UCX_INCLUDE_DIR}
    INTERFACE_LINK_LIBRARIES ${UCX_UCS_LIBRARY})
endif()
mark_as_advanced(UCX_INCLUDE_DIR UCX_UCP_LIBRARY UCX_UCS_LIBRARY)
