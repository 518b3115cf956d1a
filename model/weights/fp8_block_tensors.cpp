#include "model/weights/fp8_block_tensors.hpp"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "model/parameters/parameter_slice.hpp"
#include "ops/float8.hpp"

namespace pipetrain {
namespace {

constexpr std::string_view factor_ending = "_scale_inv";

[[noreturn]] void refuse_fp8(const HfTensors::Location& location, const std::string& what) {
  throw Error(ErrorKind::input,
              fmt::format("{}: tensor {} {}; copy the folder again", location.file->path().string(), location.name, what));
}

std::int64_t blocks_in(std::int64_t size) { return (size + fp8_file_block - 1) / fp8_file_block; }

}  // namespace

Fp8BlockTensors::Fp8BlockTensors(HfTensors& tensors) {
  const std::map<std::string, HfTensors::Location> all = tensors.all();
  for (const auto& [name, factors] : all) {
    if (!name.ends_with(factor_ending)) continue;
    const std::string matrix = name.substr(0, name.size() - factor_ending.size());
    const HfTensors::Location* const codes = tensors.find(matrix);
    if (codes == nullptr) refuse_fp8(factors, fmt::format("has the factors of {}, which is missing", matrix));
    const SafetensorsReader::Entry& entry = codes->file->entries().at(codes->name);
    if (entry.dtype != "F8_E4M3" || entry.shape.size() != 2) refuse_fp8(*codes, "has factors and is no matrix of F8_E4M3");
    const Shape shape{entry.shape[0], entry.shape[1]};
    factors.file->check(factors.name, {blocks_in(shape[0]), blocks_in(shape[1])});
    matrices_.emplace(matrix, Matrix{*codes, factors, shape});
    tensors.forget(matrix);
    tensors.forget(name);
  }
}

void Fp8BlockTensors::check(const std::string& name, const Shape& shape) const {
  const Matrix& matrix = matrices_.at(name);
  if (matrix.shape != shape)
    throw Error(ErrorKind::input,
                fmt::format("{}: tensor {} has shape {}, and config.json asks for {}; give the weights and the config.json of "
                            "one model",
                            matrix.codes.file->path().string(), name, to_string(matrix.shape), to_string(shape)));
}

void Fp8BlockTensors::load(const Parameter& parameter, float* out) const {
  const Matrix& matrix = matrices_.at(parameter.name);
  check(parameter.name, parameter.full);
  const std::int64_t columns = matrix.shape[1], blocks = blocks_in(columns);
  std::vector<float> factors(static_cast<std::size_t>(blocks_in(matrix.shape[0]) * blocks));
  matrix.factors.read(0, std::ssize(factors), factors.data());
  std::vector<std::uint8_t> codes;
  read_slice(parameter, out, [&](std::int64_t first, std::int64_t count, float* to) {
    codes.resize(static_cast<std::size_t>(count));
    matrix.codes.file->read_raw(matrix.codes.name, static_cast<std::uint64_t>(first), codes.size(), codes.data());
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = (first + i) / columns, column = (first + i) % columns;
      const float factor = factors[static_cast<std::size_t>(row / fp8_file_block * blocks + column / fp8_file_block)];
      to[i] = from_e4m3(codes[static_cast<std::size_t>(i)]) * factor;
    }
  });
}

}  // namespace pipetrain
