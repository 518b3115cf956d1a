// StageEdge is the layout of the tensors that chunks pass on: activations forward, gradients backward. In a model with routed
// experts the rows below them hold counts: forward, how often each sequence has chosen each expert in the layers so far;
// backward, in all layers. So every stage knows the balancing loss's gradient. A sequence is a sample, or an isolated document:
// then there is a row of counts for each token of whole samples, because any token may begin a document.
#pragma once

#include <cstdint>

#include "core/tensor.hpp"
#include "model/blocks/microbatch.hpp"
#include "model/config/config.hpp"

namespace pipetrain {

class StageEdge {
 public:
  // rows: this rank's rows of the tokens; counted: counted_rows(). dtype: of the values.
  StageEdge(const ModelConfig& config, std::int64_t rows, std::int64_t counted, DType dtype)
      : values_{rows, config.hidden},
        counts_{counted, config.routed_layers() > 0 ? config.experts.count : 0},
        row_bytes_(config.hidden * static_cast<std::int64_t>(size_of(dtype))) {}

  const Shape& values() const { return values_; }  // [Tr, H]
  const Shape& counts() const { return counts_; }  // [counted, E]; E is 0 without routed layers
  // Returns the rows of counts of a microbatch of so many samples and tokens, all parts of shared samples together.
  static std::int64_t counted_rows(std::int64_t batch, std::int64_t tokens, bool isolates_documents) {
    return isolates_documents ? tokens : batch;
  }
  bool has_counts() const { return counts_[1] > 0; }
  // Returns [Tr, H], and as many more rows as the counts take.
  Shape shape() const { return values_.with(0, values_[0] + count_rows()); }

  Tensor values_of(const Tensor& edge) const { return has_counts() ? edge.row_range(0, values_[0]) : edge; }
  Tensor counts_of(const Tensor& edge) const {
    return {edge.row_range(values_[0], values_[0] + count_rows()).data, counts_, DType::i32};
  }

 private:
  std::int64_t count_rows() const {
    return (counts_.elements() * static_cast<std::int64_t>(sizeof(std::int32_t)) + row_bytes_ - 1) / row_bytes_;
  }

  Shape values_, counts_;
  std::int64_t row_bytes_;
};

}  // namespace pipetrain
