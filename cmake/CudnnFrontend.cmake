# The headers of NVIDIA's cudnn-frontend, which writes cuDNN's attention graphs. Sets CUDNN_FRONTEND_INCLUDE_DIR.
#
# They come from the Python package index by the ordinary client, once per build folder, pinned by version and hash; the wheel's
# headers are the same for every Python and platform. Without a network, give -DPIPETRAIN_CUDNN_FRONTEND=<folder that holds
# cudnn_frontend.h>.
set(cudnn_frontend_version 1.32.0)
set(cudnn_frontend_hash c6006556017a4d1c914c52a556c71b1267f2d6a0500f742e7b4edef539878df0)
set(PIPETRAIN_CUDNN_FRONTEND "" CACHE PATH "Folder that holds cudnn_frontend.h; empty: fetch version ${cudnn_frontend_version}")

if(PIPETRAIN_CUDNN_FRONTEND)
  set(CUDNN_FRONTEND_INCLUDE_DIR ${PIPETRAIN_CUDNN_FRONTEND})
  if(NOT EXISTS ${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend.h)
    message(FATAL_ERROR "PIPETRAIN_CUDNN_FRONTEND is ${PIPETRAIN_CUDNN_FRONTEND}, but there is no cudnn_frontend.h in it")
  endif()
  return()
endif()

set(folder ${PROJECT_BINARY_DIR}/cudnn-frontend-${cudnn_frontend_version})
set(CUDNN_FRONTEND_INCLUDE_DIR ${folder}/include)
if(EXISTS ${folder}/complete)
  return()
endif()

set(advice "fetch it yourself and configure with -DPIPETRAIN_CUDNN_FRONTEND=<folder that holds cudnn_frontend.h>")
find_package(Python3 COMPONENTS Interpreter)
if(NOT Python3_Interpreter_FOUND)
  message(FATAL_ERROR "The CUDA build needs cudnn-frontend ${cudnn_frontend_version}, and python3 with pip to fetch it: "
                      "install python3-pip, or ${advice}")
endif()
message(STATUS "Fetching cudnn-frontend ${cudnn_frontend_version}")
file(MAKE_DIRECTORY ${folder})
file(WRITE ${folder}/requirements.txt
  "nvidia-cudnn-frontend==${cudnn_frontend_version} --hash=sha256:${cudnn_frontend_hash}\n")
execute_process(
  COMMAND ${Python3_EXECUTABLE} -m pip download --quiet --disable-pip-version-check --require-hashes --no-deps
          --only-binary=:all: --implementation cp --python-version 3.11 --platform manylinux_2_28_x86_64
          --dest ${folder} --requirement ${folder}/requirements.txt
  RESULT_VARIABLE status ERROR_VARIABLE complaint)
file(GLOB wheel ${folder}/*.whl)
if(NOT status EQUAL 0 OR NOT wheel)
  message(FATAL_ERROR "Fetching cudnn-frontend ${cudnn_frontend_version} with pip failed: ${complaint}\n"
                      "Check the network, or ${advice}")
endif()
file(ARCHIVE_EXTRACT INPUT ${wheel} DESTINATION ${folder} PATTERNS "include/*")
file(REMOVE ${wheel})
if(NOT EXISTS ${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend.h)
  message(FATAL_ERROR "The package cudnn-frontend ${cudnn_frontend_version} holds no include/cudnn_frontend.h: ${advice}")
endif()
file(TOUCH ${folder}/complete)
