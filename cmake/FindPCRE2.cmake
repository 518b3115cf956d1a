# PCRE2::8bit: regular expressions over UTF-8. Debian's package comes without a CMake package of its own.
include(PipetrainImport)
pipetrain_import_library(PCRE2 PCRE2::8bit pcre2.h pcre2-8)
