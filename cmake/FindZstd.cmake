# Zstd::zstd: .zst files. Debian's package comes without a CMake package of its own.
include(PipetrainImport)
pipetrain_import_library(Zstd Zstd::zstd zstd.h zstd)
