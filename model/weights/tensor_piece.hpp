// The names of the tensors in a checkpoint's rank files: each says which part of which state of which logical tensor it holds.
//
//   weights/model.norm.weight                              the whole tensor
//   exp_avg/model.layers.0.mlp.up_proj.weight[64:128]      its rows 64 to 127
//   weights/model.layers.0.mlp.down_proj.weight[:,0:64]    its columns 0 to 63
//   weights/h.0.attn.c_attn.weight[:,0:32].T               its columns 0 to 31, stored as rows
//   exp_avg/lm_head.weight[0:64]{0:65536}                  of its rows 0 to 63, dense and one after another, the first 65,536
//                                                          elements
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pipetrain {

struct TensorPiece {
  std::string state, tensor;
  int axis = -1;                    // the axis along which the slice is cut: 0 rows, 1 columns, -1 not cut
  std::int64_t begin = 0, end = 0;  // of the slice, along the axis
  bool transposed = false;          // true when the slice is stored as [columns, rows]
  // Elements [first, last) of the slice as it is stored; nothing: all of them.
  struct Range {
    std::int64_t first = 0, last = 0;
    bool operator==(const Range&) const = default;
  };
  std::optional<Range> elements = {};

  bool operator==(const TensorPiece&) const = default;
};

std::string to_string(const TensorPiece& piece);
// Returns nothing for any other name. Every name has one meaning, and every piece one name. Thread-safe.
std::optional<TensorPiece> read_piece_name(std::string_view name);

}  // namespace pipetrain
