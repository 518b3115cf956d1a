// The pieces of one logical tensor, read as if it were whole.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "model/parameters/parameters.hpp"
#include "model/weights/piecewise_weights.hpp"
#include "model/weights/tensor_piece.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {

// The location of a piece.
struct LocatedPiece {
  std::shared_ptr<const StoredPieces> store;
  const StoredPieces::Piece* stored = nullptr;  // in the store
  TensorPiece piece;
};
// Throws Error(input) that names the piece and where it is.
[[noreturn]] void refuse(const LocatedPiece& at, const std::string& what);

// The pieces of one logical tensor, which together hold each element once. Thread-safe once it has been checked.
class TensorPieces {
 public:
  void add(LocatedPiece at) { pieces_.push_back(std::move(at)); }

  // Sorts the pieces. Throws Error(input) if elements are missing, held twice or beyond the tensor.
  void check(const Shape& full);
  // Checks the pieces of a tensor of this shape, or a single piece, whose shape the tensor has.
  void check_or_take(const Shape& full);

  // Both: see WeightSource.
  void load(const Parameter& wanted, float* out) const;
  bool pass_in_memory(const Parameter& wanted, const Region& elements, const TakeElements& take) const;

 private:
  std::int64_t axis_end(const LocatedPiece& at) const;
  std::int64_t check_slice(std::size_t& i, std::int64_t covered) const;
  void check_same_model(const Parameter& wanted) const;

  Shape full_;
  std::vector<LocatedPiece> pieces_;
};

}  // namespace pipetrain
