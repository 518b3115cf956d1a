// The absolute paths of the files that the tests read and run. Only paths.cpp contains them, so that every other object
// is the same in every clone and a compiler cache finds it there.
#pragma once

#include <string>

namespace pipetrain {

std::string test_data();       // the folder tests/
std::string source_folder();   // the repository
std::string build_folder();    // CMake's binary directory
std::string cmake_program();   // cmake itself
std::string program_path();    // pipetrain
std::string bench_gpu_path();  // bench_gpu
std::string c_library_path();  // libpipetrain.so
std::string parquet_writer();  // tests/data/arrow/writer

}  // namespace pipetrain
