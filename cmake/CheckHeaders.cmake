# The target checkheaders, which compiles each header with nothing before it, through a source that includes it alone. Batches and
# precompiled headers hide that a header misses an include. `./dev lint` builds those of the headers that changed, in the preset
# "plain": CMakeFiles/checkheaders.dir/checkheaders/core/error.hpp.cpp.o is that of core/error.hpp.
set(headers "")
foreach(room actors apps bench bindings comm core data files model ops records schedules tests tuning)
  file(GLOB_RECURSE found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${room}/*.hpp)
  list(APPEND headers ${found})
endforeach()
pipetrain_choose_backend(headers)
if(NOT PIPETRAIN_PYTHON)
  list(FILTER headers EXCLUDE REGEX "/bindings/python/")
endif()
list(FILTER headers EXCLUDE REGEX "/arrow/module/")  # Arrow's headers are those of libpipetrain_parquet alone
if(NOT PIPETRAIN_CUDA)  # such headers include cuda_runtime_api.h
  list(FILTER headers EXCLUDE REGEX "/cuda_[^/]*$|/hopper/")
endif()

set(sources "")
foreach(header IN LISTS headers)
  file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${header})
  set(source ${PROJECT_BINARY_DIR}/checkheaders/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${name}\"\n" @ONLY)
  list(APPEND sources ${source})
endforeach()
add_library(checkheaders OBJECT EXCLUDE_FROM_ALL ${sources})
target_compile_features(checkheaders PRIVATE cxx_std_20)
target_compile_options(checkheaders PRIVATE -O0)
pipetrain_warnings(checkheaders)
target_include_directories(checkheaders PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/include)
target_include_directories(checkheaders SYSTEM PRIVATE ${DLPACK_INCLUDE_DIR})
target_link_libraries(checkheaders PRIVATE pipetrain::engine fmt::fmt)
if(PIPETRAIN_UCX)
  target_link_libraries(checkheaders PRIVATE UCX::ucp)
endif()
