# A room is a folder that becomes one static library pipetrain::NAME of all its sources.
#
#   pipetrain_room(NAME [SOURCES files...] [FOLDERS names...] [LINKS targets...] [PRIVATE_LINKS targets...] [CUDA_LINKS targets...]
#                  [UCX_LINKS targets...] [TOGETHER files...] [FAST files...])
#
# Without SOURCES these are the folder's own .cpp files and those in FOLDERS and in cpu/, and with PIPETRAIN_CUDA its .cu files and all of
# cuda/ too. Either way the name of a file tells which backend it belongs to:
#   no_cuda.cpp                                     a stub that says what is missing: built without the backend
#   cuda/*, cuda_*.*                                the backend: built with it
#   no_ucx.cpp; ucx/*                               the same for UCX
#   no_nccl.cpp; nccl/*                             the same for NCCL
#   nccl/no_nccl_put_signal.cpp; nccl/nccl_put_signal.cpp  puts of NCCL, which nccl.h has from 2.29 on
#   no_arrow.cpp; arrow/*                           the same for Apache Arrow
# CUDA_LINKS and UCX_LINKS are linked privately, with PIPETRAIN_CUDA and PIPETRAIN_UCX only.
#
# The sources are compiled in batches and with a precompiled header: see PipetrainBatches.cmake.
include(PipetrainBatches)

function(pipetrain_room name)
  cmake_parse_arguments(ROOM "" "" "LINKS;PRIVATE_LINKS;CUDA_LINKS;UCX_LINKS;SOURCES;FOLDERS;TOGETHER;FAST" ${ARGN})
  if(NOT ROOM_SOURCES)
    file(GLOB ROOM_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp ${CMAKE_CURRENT_SOURCE_DIR}/cpu/*.cpp)
    foreach(folder IN LISTS ROOM_FOLDERS)
      file(GLOB folder_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
      list(APPEND ROOM_SOURCES ${folder_sources})
    endforeach()
    if(PIPETRAIN_CUDA)
      file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cu
        ${CMAKE_CURRENT_SOURCE_DIR}/cuda/*.cu ${CMAKE_CURRENT_SOURCE_DIR}/cuda/*.cpp)
      list(APPEND ROOM_SOURCES ${cuda_sources})
    endif()
  endif()
  pipetrain_choose_backend(ROOM_SOURCES)
  if(NOT ROOM_SOURCES)  # a room without code yet
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/empty.cpp "")
    set(ROOM_SOURCES ${CMAKE_CURRENT_BINARY_DIR}/empty.cpp)
  endif()

  add_library(pipetrain_${name} STATIC)
  add_library(pipetrain::${name} ALIAS pipetrain_${name})
  set_target_properties(pipetrain_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(pipetrain_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/pipetrain>)
  target_compile_features(pipetrain_${name} PUBLIC cxx_std_20)
  pipetrain_warnings(pipetrain_${name})
  pipetrain_sources(pipetrain_${name} BY_ERRORS TOGETHER ${ROOM_TOGETHER} FAST ${ROOM_FAST} SOURCES ${ROOM_SOURCES})
  target_link_libraries(pipetrain_${name} PUBLIC ${ROOM_LINKS} PRIVATE ${ROOM_PRIVATE_LINKS})
  pipetrain_precompile(pipetrain_${name} library)
  if(PIPETRAIN_CUDA)
    target_link_libraries(pipetrain_${name} PRIVATE ${ROOM_CUDA_LINKS})
  endif()
  if(PIPETRAIN_UCX)
    target_link_libraries(pipetrain_${name} PRIVATE ${ROOM_UCX_LINKS})
  endif()
endfunction()

# Leaves in the named list only the files of the backends that are built.
function(pipetrain_choose_backend list)
  set(CUDA_stub "/no_cuda\\.cpp$")
  set(CUDA_real "/cuda/[^/]*$|/cuda_[^/]*$|\\.cu$")
  set(UCX_stub "/no_ucx\\.cpp$")
  set(UCX_real "/ucx/[^/]*$")
  set(NCCL_stub "/no_nccl\\.cpp$")
  set(NCCL_real "/nccl/[^/]*$")
  set(ARROW_stub "/no_arrow\\.cpp$")
  set(ARROW_real "/arrow/[^/]*$")
  foreach(backend CUDA UCX NCCL ARROW)
    if(PIPETRAIN_${backend})
      list(FILTER ${list} EXCLUDE REGEX "${${backend}_stub}")
    else()
      list(FILTER ${list} EXCLUDE REGEX "${${backend}_real}")
    endif()
  endforeach()
  if(NCCL_VERSION VERSION_GREATER_EQUAL 2.29)
    list(FILTER ${list} EXCLUDE REGEX "/no_nccl_put_signal\\.cpp$")
  else()
    list(FILTER ${list} EXCLUDE REGEX "/nccl_put_signal\\.cpp$")
  endif()
  set(${list} ${${list}} PARENT_SCOPE)
endfunction()
