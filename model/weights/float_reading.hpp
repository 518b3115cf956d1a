// Reads floats of a file as f32.
#pragma once

#include <cstdint>

#include "files/file_io.hpp"
#include "model/weights/saved_type.hpp"

namespace pipetrain {

// out = count floats of this type, little-endian and contiguous, from byte `begin` of the file on. Thread-safe.
// Throws the file's errors.
void read_floats(const InputFile& file, SavedType type, std::uint64_t begin, std::int64_t count, float* out);

}  // namespace pipetrain
