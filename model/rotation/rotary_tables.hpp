// The tables of angles that the layers of a model take (rotary_table.hpp), in a device's memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/stream.hpp"
#include "core/tensor.hpp"
#include "model/config/config.hpp"

namespace pipetrain {

// Each [positions, 2, pairs] f32, cosines then sines. Without shapes where positions are learned.
struct RotaryTables {
  Tensor full;      // of layers that attend to all positions
  Tensor windowed;  // of windowed layers; the same one where they rotate alike

  RotaryTables rows(std::int64_t begin, std::int64_t end) const;
};

// Views of memory that holds them one behind the other, from a multiple of tensor_alignment on; memory may be null.
RotaryTables rotary_tables_at(void* memory, const ModelConfig& config, std::int64_t positions);
// Returns the bytes of that memory; 0 where positions are learned.
std::size_t rotary_bytes(const ModelConfig& config, std::int64_t positions);
// Computes the tables and copies them to their places. Waits for the stream.
void upload_rotary_tables(const RotaryTables& tables, const ModelConfig& config, Stream& stream);

}  // namespace pipetrain
