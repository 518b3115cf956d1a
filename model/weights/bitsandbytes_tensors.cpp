#include "model/weights/bitsandbytes_tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "files/json.hpp"
#include "model/quantisation/nf4.hpp"
#include "model/quantisation/quantise.hpp"

namespace pipetrain {
namespace {

constexpr std::string_view state_infix = ".quant_state.bitsandbytes__";
constexpr std::uint64_t most_state_bytes = 4096;

[[noreturn]] void refuse_packed(const HfTensors::Location& location, const std::string& what) {
  throw Error(ErrorKind::input, fmt::format("{}: tensor {} {}", location.file->path().string(), location.name, what));
}

// Takes a tensor out of the list. Throws unless it is there with this many numbers of this type.
HfTensors::Location take(HfTensors& tensors, const HfTensors::Location& beside, const std::string& name, const char* dtype,
                         std::int64_t count) {
  const HfTensors::Location* const found = tensors.find(name);
  if (found == nullptr) refuse_packed(beside, fmt::format("lacks {}; copy the folder again", name));
  const HfTensors::Location location = *found;
  const SafetensorsReader::Entry& entry = location.file->entries().at(location.name);
  std::int64_t elements = 1;
  for (const std::int64_t size : entry.shape) elements *= size;
  if (entry.dtype != dtype || elements != count)
    refuse_packed(location,
                  fmt::format("has {} numbers of {}, not the {} of {} that its matrix needs; save the model again with "
                              "quant_storage uint8",
                              elements, entry.dtype, count, dtype));
  tensors.forget(name);
  return location;
}

// The settings of a matrix, in JSON.
Json read_state(const HfTensors::Location& location) {
  const SafetensorsReader::Entry& entry = location.file->entries().at(location.name);
  if (entry.dtype != "U8" || entry.end - entry.begin > most_state_bytes)
    refuse_packed(location, "is not a short text; copy the folder again");
  std::string text(entry.end - entry.begin, '\0');
  location.file->read_raw(location.name, 0, text.size(), text.data());
  return parse_json(text, {fmt::format("{}: {}", location.file->path().string(), location.name)});
}

std::int64_t whole_in(const Json& state, const char* key, const HfTensors::Location& location) {
  const Json* const value = state.is_object() ? state.find(key) : nullptr;
  if (value == nullptr || !value->is_unsigned()) refuse_packed(location, fmt::format("has no {}; copy the folder again", key));
  return value->as_int64();
}

void expect(const Json& state, const char* key, std::int64_t value, const HfTensors::Location& location) {
  const std::int64_t found = whole_in(state, key, location);
  if (found != value)
    refuse_packed(location, fmt::format("has {} {}; only {} is read: quantise the model again with it", key, found, value));
}

Shape shape_in(const Json& state, const HfTensors::Location& location) {
  const Json* const shape = state.find("shape");
  const bool is_matrix =
      shape != nullptr && shape->is_array() && shape->size() == 2 && (*shape)[0].is_unsigned() && (*shape)[1].is_unsigned();
  if (!is_matrix) refuse_packed(location, "has no shape of a matrix; copy the folder again");
  const auto size_of_axis = [&](std::size_t axis) {
    const auto size = (*shape)[axis].as_uint64();
    if (size == 0 || size > (std::uint64_t{1} << 24)) refuse_packed(location, "has an impossible shape; copy the folder again");
    return static_cast<std::int64_t>(size);
  };
  return {size_of_axis(0), size_of_axis(1)};
}

void check_packed(const HfTensors::Location& location, std::span<const float> values) {
  if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }))
    refuse_packed(location, "has a number that is not finite; save the model again");
}

std::vector<float> floats_of(const HfTensors::Location& location, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  location.file->read_raw(location.name, 0, values.size() * sizeof(float), values.data());
  check_packed(location, values);
  return values;
}

// out = the codes [first, first + count) of the file, from element `at` of the slice on; `out` was zero.
void read_codes(const HfTensors::Location& location, std::int64_t first, std::int64_t count, std::int64_t at,
                std::uint8_t* out) {
  const std::int64_t begin = first / 2, bytes = (first + count + 1) / 2 - begin;
  if (first % 2 == 0 && at % 2 == 0)
    return location.file->read_raw(location.name, static_cast<std::uint64_t>(begin), static_cast<std::size_t>(bytes),
                                   out + at / 2);
  std::vector<std::uint8_t> pairs(static_cast<std::size_t>(bytes));
  location.file->read_raw(location.name, static_cast<std::uint64_t>(begin), pairs.size(), pairs.data());
  for (std::int64_t i = 0; i < count; ++i) {
    const unsigned pair = pairs[static_cast<std::size_t>((first + i) / 2 - begin)];
    const unsigned code = (first + i) % 2 == 0 ? pair >> 4 : pair & 0xfU;
    std::uint8_t& to = out[(at + i) / 2];
    to = static_cast<std::uint8_t>(to | code << ((at + i) % 2 == 0 ? 4 : 0));
  }
}

}  // namespace

BitsandbytesTensors::BitsandbytesTensors(HfTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, location] : tensors.all()) {
    const std::size_t at = name.find(state_infix);
    if (at == std::string::npos) continue;
    const std::string type = name.substr(at + state_infix.size());
    if (type != "nf4") refuse_packed(location, fmt::format("is of {}; quantise the model with nf4, which is read", type));
    names.push_back(name.substr(0, at));
  }
  for (const std::string& name : names) matrices_.emplace(name, read_matrix(tensors, name));
}

BitsandbytesTensors::Matrix BitsandbytesTensors::read_matrix(HfTensors& tensors, const std::string& name) const {
  const std::string state_name = name + std::string(state_infix) + "nf4";
  const HfTensors::Location described = *tensors.find(state_name);
  const Json state = read_state(described);
  expect(state, "blocksize", nf4_block, described);
  Matrix matrix;
  matrix.shape = shape_in(state, described);
  const bool is_nested = tensors.find(name + ".nested_absmax") != nullptr;
  matrix.form = is_nested ? WeightForm::nf4 : WeightForm::nf4_scales;
  const QuantisedLayout layout = quantised_layout(matrix.form, matrix.shape, {0, 1, matrix.shape.elements(), 0});
  matrix.codes = take(tensors, described, name, "U8", (matrix.shape.elements() + 1) / 2);
  matrix.scales = take(tensors, described, name + ".absmax", is_nested ? "U8" : "F32", layout.blocks());
  matrix.map = take(tensors, described, name + ".quant_map", "F32", nf4_levels);
  if (floats_of(matrix.map, nf4_levels) != std::vector<float>(nf4_level_values.begin(), nf4_level_values.end()))
    refuse_packed(matrix.map, "has other levels than nf4; quantise the model again");
  if (is_nested) {
    expect(state, "nested_blocksize", nf4_scale_group, described);
    const Json* const mean = state.find("nested_offset");
    if (mean == nullptr || !mean->is_number()) refuse_packed(described, "has no nested_offset; copy the folder again");
    matrix.mean = static_cast<float>(mean->as_double());
    matrix.group_scales = take(tensors, described, name + ".nested_absmax", "F32", layout.scale_groups());
    matrix.scale_map = take(tensors, described, name + ".nested_quant_map", "F32", nf4_scale_map);
  }
  tensors.forget(state_name);
  return matrix;
}

void BitsandbytesTensors::check(const std::string& name, const Shape& shape) const {
  const Matrix& matrix = matrices_.at(name);
  if (shape.rank() == 2 && (matrix.shape == shape || matrix.shape == Shape{shape[1], shape[0]})) return;
  refuse_packed(matrix.codes,
                fmt::format("is a matrix of {}, and config.json makes it {}; give the weights and the config.json "
                            "of one model",
                            to_string(matrix.shape), to_string(shape)));
}

void BitsandbytesTensors::read(const Parameter& parameter, const QuantisedLayout& layout, std::byte* out) const {
  const Matrix& matrix = matrices_.at(parameter.name);
  std::memset(out, 0, layout.bytes);
  auto* const codes = reinterpret_cast<std::uint8_t*>(out + layout.codes);
  const SliceRuns& runs = layout.runs;
  const bool is_nested = matrix.form == WeightForm::nf4;
  const std::size_t scale_bytes = is_nested ? 1 : sizeof(float), blocks = static_cast<std::size_t>(layout.blocks_of_run());
  std::byte* scales = out + (is_nested ? layout.scale_codes : layout.scales);
  for (std::int64_t run = 0; run < runs.runs; ++run) {
    const std::int64_t first = runs.first + run * runs.stride;
    read_codes(matrix.codes, first, runs.length, run * runs.length, codes);
    const auto block = static_cast<std::uint64_t>(first / nf4_block);
    matrix.scales.file->read_raw(matrix.scales.name, block * scale_bytes, blocks * scale_bytes, scales);
    scales += blocks * scale_bytes;
  }
  auto* const tables = reinterpret_cast<float*>(out + layout.tables);
  std::copy(nf4_level_values.begin(), nf4_level_values.end(), tables);
  if (!is_nested) {
    const auto* const of_blocks = reinterpret_cast<const float*>(out + layout.scales);
    return check_packed(matrix.scales, {of_blocks, static_cast<std::size_t>(runs.runs) * blocks});
  }
  const auto put = [](const std::vector<float>& values, float* to) { std::copy(values.begin(), values.end(), to); };
  put(floats_of(matrix.group_scales, layout.scale_groups()), reinterpret_cast<float*>(out + layout.scales));
  put(floats_of(matrix.scale_map, nf4_scale_map), tables + nf4_levels);
  tables[nf4_levels + nf4_scale_map] = matrix.mean;
}

void BitsandbytesTensors::read_floats(const Parameter& parameter, float* out) const {
  const SliceRuns runs = runs_of(parameter);
  const bool of_rows = runs.runs == 1;  // columns may divide blocks
  const Parameter held = of_rows ? parameter : whole_matrix(parameter);
  const QuantisedLayout layout = quantised_layout_of(held, form(parameter.name));
  std::vector<std::byte> bytes(layout.bytes);
  read(held, layout, bytes.data());
  const QuantisedMatrix matrix{layout, bytes.data()};
  if (of_rows) return read_values(matrix, 0, runs.length, out);
  for (std::int64_t run = 0; run < runs.runs; ++run) {
    const std::int64_t first = runs.first + run * runs.stride;
    read_values(matrix, first, first + runs.length, out + run * runs.length);
  }
}

}  // namespace pipetrain
