// The matrices of a Hugging Face folder that bitsandbytes has quantised to 4 bits (github.com/bitsandbytes-foundation/
// bitsandbytes). Beside a matrix W, a file has W.absmax, W.quant_map, W.quant_state.bitsandbytes__nf4 (JSON text), and with
// double quantisation W.nested_absmax and W.nested_quant_map.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "model/parameters/parameters.hpp"
#include "model/weights/hf_tensors.hpp"
#include "ops/quantised_matrix.hpp"

namespace pipetrain {

// Reading is thread-safe.
class BitsandbytesTensors {
 public:
  // Takes the matrices and what describes them out of `tensors`, which must outlive it. Throws Error(input), naming file and
  // tensor, for a tensor that is missing or malformed, and for settings other than nf4 in blocks of 64, nested by 256.
  explicit BitsandbytesTensors(HfTensors& tensors);

  bool has(const std::string& name) const { return matrices_.contains(name); }
  // Throws Error(input) unless the matrix has this shape, or the transpose: files have all matrices [outputs, inputs].
  void check(const std::string& name, const Shape& shape) const;
  // The form of this matrix: nf4, or nf4_scales without double quantisation.
  WeightForm form(const std::string& name) const { return matrices_.at(name).form; }

  // out [layout.bytes] = the slice in the file's own codes. The layout must be quantised_layout_of(parameter, form(name)).
  void read(const Parameter& parameter, const QuantisedLayout& layout, std::byte* out) const;
  // out (parameter.local) = the values of the slice.
  void read_floats(const Parameter& parameter, float* out) const;

 private:
  struct Matrix {
    WeightForm form = WeightForm::nf4;
    Shape shape;
    float mean = 0;
    HfTensors::Location codes, scales, map, group_scales, scale_map;
  };

  Matrix read_matrix(HfTensors& tensors, const std::string& name) const;

  std::map<std::string, Matrix> matrices_;
};

}  // namespace pipetrain
