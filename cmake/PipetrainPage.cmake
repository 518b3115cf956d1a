# pipetrain_page(TARGET NAME STYLES files... SCRIPTS files...): builds an HTML page of these files into the target, as the texts
# NAME_begin and NAME_end of namespace pipetrain. Between them a program writes one JSON value, which the scripts read as
# `data`. Without modules or imports the page needs nothing but itself. The files may not contain the text `)page"`.
function(pipetrain_page target name)
  cmake_parse_arguments(PAGE "" "" "STYLES;SCRIPTS" ${ARGN})
  pipetrain_page_text(styles ${PAGE_STYLES})
  pipetrain_page_text(scripts ${PAGE_SCRIPTS})
  string(CONCAT text
    "namespace pipetrain {\n\nextern const char *const ${name}_begin, *const ${name}_end;\nconst char* const ${name}_begin = R\"page(<!doctype html>\n"
    "<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
    "<title>pipetrain</title><style>\n${styles}</style></head><body><main id=\"main\"></main><div id=\"tip\"></div><script>\n"
    "'use strict';\nconst data = )page\";\n\nconst char* const ${name}_end = R\"page(;\n${scripts}</script></body></html>\n)page\";\n\n"
    "}  // namespace pipetrain\n")
  set(made ${CMAKE_CURRENT_BINARY_DIR}/embedded_${name}.cpp)  # no object of the target has this name
  file(WRITE ${made}.new "${text}")
  file(COPY_FILE ${made}.new ${made} ONLY_IF_DIFFERENT)
  set_source_files_properties(${made} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  target_sources(${target} PRIVATE ${made})
endfunction()

# Puts the files' texts one after the other into the named variable. CMake runs again when one of them changes.
function(pipetrain_page_text variable)
  set(text "")
  foreach(file IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} part)
    string(APPEND text "${part}")
  endforeach()
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()
