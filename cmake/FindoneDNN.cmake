# oneDNN with OpenMP as Debian builds it; the CMake package that comes with it refers to files that Debian leaves out.
# Defines the target oneDNN::oneDNN. Set oneDNN_ROOT to look in another prefix.
find_path(ONEDNN_INCLUDE_DIR dnnl.h)
find_library(ONEDNN_LIBRARY dnnl)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(oneDNN REQUIRED_VARS ONEDNN_LIBRARY ONEDNN_INCLUDE_DIR)
if(oneDNN_FOUND AND NOT TARGET oneDNN::oneDNN)
  add_library(oneDNN::oneDNN UNKNOWN IMPORTED)
  set_target_properties(oneDNN::oneDNN PROPERTIES
    IMPORTED_LOCATION ${ONEDNN_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${ONEDNN_INCLUDE_DIR}
    INTERFACE_LINK_LIBRARIES gomp)  # the OpenMP library that oneDNN itself loads: callers set its number of threads
endif()
mark_as_advanced(ONEDNN_INCLUDE_DIR ONEDNN_LIBRARY)
