# What `cmake --install` lays down: the program, and the rooms as a CMake package for programs that embed them.
#
#   find_package(pipetrain COMPONENTS schedules)   pipetrain::schedules, no dependency at all
#   find_package(pipetrain COMPONENTS engine)      pipetrain::engine: the actors, any compute
#   find_package(pipetrain COMPONENTS training)    pipetrain::training: whole runs
#   find_package(pipetrain COMPONENTS c)           pipetrain::c, the shared library of the C API; also by pkg-config
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/pipetrain)

# One export set per component, so that each asks only for what it needs.
set(schedules_rooms schedules)
set(engine_rooms core comm engine)
set(training_rooms files records data ops model ranks training)
set(exported_components schedules engine training)
foreach(component IN LISTS exported_components)
  list(TRANSFORM ${component}_rooms PREPEND pipetrain_ OUTPUT_VARIABLE targets)
  install(TARGETS ${targets} EXPORT pipetrain-${component} COMPONENT development ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT pipetrain-${component} NAMESPACE pipetrain:: DESTINATION ${package_dir} COMPONENT development)
endforeach()

install(TARGETS pipetrain_c EXPORT pipetrain-c COMPONENT development LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT pipetrain-c NAMESPACE pipetrain:: DESTINATION ${package_dir} COMPONENT development)
install(TARGETS pipetrain_c COMPONENT extra EXCLUDE_FROM_ALL LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_SKIP)  # for their tests
install(FILES ${PROJECT_SOURCE_DIR}/include/pipetrain/pipetrain.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/pipetrain
  COMPONENT development)
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH PIPETRAIN_PC_PREFIX ${CMAKE_INSTALL_PREFIX}/${pc_dir} ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" PIPETRAIN_PC_PREFIX "${PIPETRAIN_PC_PREFIX}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/pipetrain.pc.in ${PROJECT_BINARY_DIR}/pipetrain.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/pipetrain.pc DESTINATION ${pc_dir} COMPONENT development)

include(PublicHeaders)
foreach(component IN LISTS exported_components)
  foreach(header IN LISTS ${component}_headers ${component}_included_headers)
    get_filename_component(folder ${header} DIRECTORY)
    install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/pipetrain/${folder} COMPONENT development)
  endforeach()
endforeach()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/pipetrainConfig.cmake.in ${PROJECT_BINARY_DIR}/pipetrainConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/pipetrainConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/pipetrainConfig.cmake ${PROJECT_BINARY_DIR}/pipetrainConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindCAF.cmake ${PROJECT_SOURCE_DIR}/cmake/FindoneDNN.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindCUDNN.cmake ${PROJECT_SOURCE_DIR}/cmake/FindUCX.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindPCRE2.cmake ${PROJECT_SOURCE_DIR}/cmake/Findutf8proc.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindSentencePiece.cmake ${PROJECT_SOURCE_DIR}/cmake/FindZstd.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindLibUring.cmake
  ${PROJECT_SOURCE_DIR}/cmake/PipetrainImport.cmake
  DESTINATION ${package_dir} COMPONENT development)

install(TARGETS pipetrain COMPONENT program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
