# LibUring::LibUring: asynchronous file I/O. Debian's package comes without a CMake package of its own.
include(PipetrainImport)
pipetrain_import_library(LibUring LibUring::LibUring liburing.h uring)
