# utf8proc::utf8proc: properties and normal forms of Unicode characters. Debian's package comes without a CMake package of its own.
include(PipetrainImport)
pipetrain_import_library(utf8proc utf8proc::utf8proc utf8proc.h utf8proc)
