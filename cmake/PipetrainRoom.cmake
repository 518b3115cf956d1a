# A room is a folder that becomes one static library pipetrain::NAME of all its .cpp files.
function(pipetrain_room name)
  cmake_parse_arguments(ROOM "" "" "LINKS;PRIVATE_LINKS;SOURCES" ${ARGN})
  if(NOT ROOM_SOURCES)
    file(GLOB ROOM_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  endif()
  if(NOT ROOM_SOURCES)  # a room without code yet
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/empty.cpp "")
    set(ROOM_SOURCES ${CMAKE_CURRENT_BINARY_DIR}/empty.cpp)
  endif()
  add_library(pipetrain_${name} STATIC ${ROOM_SOURCES})
  add_library(pipetrain::${name} ALIAS pipetrain_${name})
  set_target_properties(pipetrain_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(pipetrain_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include/pipetrain>)
  target_compile_options(pipetrain_${name} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor)
  target_link_libraries(pipetrain_${name} PUBLIC ${ROOM_LINKS} PRIVATE ${ROOM_PRIVATE_LINKS})
endfunction()
