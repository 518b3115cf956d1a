// The matrices of a Hugging Face folder in 8 bits, as DeepSeek publishes its models (DeepSeek-AI 2024, "DeepSeek-V3 Technical
// Report", section 3.3): beside a matrix X.weight of e4m3, a file has X.weight_scale_inv, the fp32 factor of each block of 128
// x 128 numbers.
#pragma once

#include <map>
#include <string>

#include "model/parameters/parameters.hpp"
#include "model/weights/hf_tensors.hpp"

namespace pipetrain {

inline constexpr std::int64_t fp8_file_block = 128;  // rows, and columns

// Reading is thread-safe.
class Fp8BlockTensors {
 public:
  // Takes the matrices that have factors, and these, out of `tensors`, which must outlive it. Throws Error(input), naming file
  // and tensor, for a factor without its matrix and for one of another type or shape.
  explicit Fp8BlockTensors(HfTensors& tensors);

  bool has(const std::string& name) const { return matrices_.contains(name); }
  // Throws Error(input) unless the matrix has this shape.
  void check(const std::string& name, const Shape& shape) const;
  // Returns the file that the matrix is in.
  const std::filesystem::path& path(const std::string& name) const { return matrices_.at(name).codes.file->path(); }
  // out (parameter.local) = the values of the slice.
  void load(const Parameter& parameter, float* out) const;

 private:
  struct Matrix {
    HfTensors::Location codes, factors;
    Shape shape;
  };

  std::map<std::string, Matrix> matrices_;
};

}  // namespace pipetrain
