// Checksums of a safetensors file, kept outside it, which detect damage to it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace pipetrain {

// Checksums as of core/checksum.hpp.
struct SafetensorsChecksums {
  std::uint64_t bytes = 0;                       // the file's size
  std::uint64_t header = 0;                      // of all bytes before the data
  std::map<std::string, std::uint64_t> tensors;  // of each tensor's bytes
};

// Reads the whole file, on up to eight threads. Throws Error(input) that names the file, and the tensor if it is one, unless
// every byte is unchanged. `source` names the origin of the expected checksums, for the error: "state.json".
void verify_safetensors(const std::filesystem::path& path, const SafetensorsChecksums& expected, const std::string& source);

}  // namespace pipetrain
