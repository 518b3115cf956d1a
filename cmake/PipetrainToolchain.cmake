# What concerns the compilers and linkers of every room: ccache, run paths, sanitizers, CUDA.

# The compiler's time grows by a sixth from -O2 to -O3, which only loops over numbers repay: rooms that have such loops ask for -O3.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# ccache finds what any clone has compiled: paths below the repository are relative for it, and no object knows its clone's folder.
# Its sloppiness lets it take precompiled headers: it then trusts that no macro of a command line changes what such a header means,
# and none does, and that nothing depends on __TIME__. -DPIPETRAIN_CCACHE=OFF compiles without it.
option(PIPETRAIN_CCACHE "Compile through ccache where it is installed" ON)
find_program(CCACHE_PROGRAM ccache)
mark_as_advanced(CCACHE_PROGRAM)
if(PIPETRAIN_CCACHE AND CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(launcher env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher})
endif()

function(pipetrain_warnings target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor>)
  pipetrain_no_false_warnings(${target})
endfunction()

function(pipetrain_no_false_warnings target)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  # A batch includes its sources, which GCC therefore takes for headers, whose types may have no anonymous members.
  set(options -Wno-subobject-linkage)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)  # its bug 105651: it warns of "literal" + std::string, in several words
    list(APPEND options -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
  endif()
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${options}>")
endfunction()

# An installed program finds its libraries in the lib/ beside it, also those that its libraries need: only the old kind of run
# path (DT_RPATH) is inherited so.
set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
if(PIPETRAIN_CUDA)
  list(APPEND CMAKE_INSTALL_RPATH /usr/local/cuda/lib64)  # where NVIDIA's packages put theirs
endif()
add_link_options(-Wl,--disable-new-dtags)

# Test and benchmark programs are installed only when their component "extra" is asked for.
function(pipetrain_install_extra target)
  install(TARGETS ${target} COMPONENT extra EXCLUDE_FROM_ALL RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

if(PIPETRAIN_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(PIPETRAIN_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(PIPETRAIN_SANITIZE)
  message(FATAL_ERROR "PIPETRAIN_SANITIZE is '${PIPETRAIN_SANITIZE}'; use address or thread, or leave it empty")
endif()

# From here on, in this folder and those added later: CAF's templates bind null references, which UBSan reports and which is
# not ours to mend.
macro(pipetrain_relax_sanitizers_for_caf)
  if(PIPETRAIN_SANITIZE STREQUAL "address")
    add_compile_options(-fno-sanitize=null)
  endif()
endmacro()

if(PIPETRAIN_CUDA)
  find_program(PIPETRAIN_NVCC nvcc PATHS /usr/local/cuda/bin)
  if(NOT PIPETRAIN_NVCC)
    message(FATAL_ERROR "PIPETRAIN_CUDA is ON but there is no nvcc on PATH or in /usr/local/cuda/bin: "
                        "install the CUDA toolkit, or configure with -DPIPETRAIN_CUDA=OFF")
  endif()
  if(NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER ${PIPETRAIN_NVCC})
  endif()
  # Each architecture takes the time of compiling the kernels again. "90" holds machine code for H100 and H200 and also PTX, which takes
  # no time and a twelfth of the object's size, and which the driver of a newer GPU compiles when the program starts: with "90-real" no
  # kernel would run there. The kernels of ops/cuda/hopper/ are compiled for 9.0 alone, whatever this says.
  set(PIPETRAIN_CUDA_ARCHITECTURES 90 CACHE STRING
    "Architectures that the kernels are compiled for, in the form of CMAKE_CUDA_ARCHITECTURES, such as 90;100; none below 90")
  string(REGEX MATCHALL "[0-9]+" architectures "${PIPETRAIN_CUDA_ARCHITECTURES}")
  foreach(architecture IN LISTS architectures)
    if(architecture LESS 90)
      message(FATAL_ERROR "PIPETRAIN_CUDA_ARCHITECTURES is '${PIPETRAIN_CUDA_ARCHITECTURES}', but GPUs below 9.0 cannot start a kernel "
                          "before the one in front of it has ended (griddepcontrol), as ours do: leave ${architecture} out")
    endif()
  endforeach()
  if(CMAKE_CUDA_ARCHITECTURES AND NOT CMAKE_CUDA_ARCHITECTURES STREQUAL PIPETRAIN_CUDA_ARCHITECTURES)
    message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES is '${CMAKE_CUDA_ARCHITECTURES}', but pipetrain compiles its kernels for what "
                        "PIPETRAIN_CUDA_ARCHITECTURES says, '${PIPETRAIN_CUDA_ARCHITECTURES}': set that one")
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${PIPETRAIN_CUDA_ARCHITECTURES})
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # one runtime in the process, shared with cuDNN
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake before 3.26 does not know that nvcc compiles C++20
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  find_package(CUDAToolkit REQUIRED)
  find_package(CUDNN REQUIRED)
endif()
