# oneDNN with OpenMP as Debian builds it; the CMake package that comes with it refers to files that Debian leaves out.
# Defines the target oneDNN::oneDNN. Set oneDNN_ROOT to look in another prefix.
include(PipetrainImport)
pipetrain_import_library(oneDNN oneDNN::oneDNN dnnl.h dnnl)
if(oneDNN_FOUND)
  # The OpenMP library that oneDNN itself loads: callers set its number of threads.
  set_target_properties(oneDNN::oneDNN PROPERTIES INTERFACE_LINK_LIBRARIES gomp)
endif()
