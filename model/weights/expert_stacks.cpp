#include "model/weights/expert_stacks.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "model/parameters/parameter_slice.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {
namespace {

constexpr std::string_view experts_infix = "experts.";
constexpr std::int64_t mx_group = 32, mx_group_bytes = mx_group / 2;  // of mxfp4: the numbers that share a scale

// The values of the 4-bit codes: a sign, two bits of exponent and one of mantissa.
constexpr float e2m1_values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0F, -0.5, -1, -1.5, -2, -3, -4, -6};

[[noreturn]] void refuse_stack(const HfTensors::Location& location, const std::string& what) {
  throw Error(ErrorKind::input, fmt::format("{}: tensor {} {}; give the weights and the config.json of one model",
                                            location.file->path().string(), location.name, what));
}

HfTensors::Location take_stack(HfTensors& tensors, const std::string& name) {
  const HfTensors::Location* const found = tensors.find(name);
  if (found == nullptr)
    throw Error(ErrorKind::input, fmt::format("{}: tensor {} is missing; give the weights and the config.json of one model",
                                              tensors.where().string(), name));
  const HfTensors::Location location = *found;
  tensors.forget(name);
  return location;
}

// Throws unless the tensor has bytes of this shape.
void check_bytes(const HfTensors::Location& location, const std::vector<std::int64_t>& shape) {
  const SafetensorsReader::Entry& entry = location.file->entries().at(location.name);
  if (entry.dtype != "U8" || entry.shape != shape)
    refuse_stack(location, fmt::format("has no bytes of shape [{}]", fmt::join(shape, ", ")));
}

}  // namespace

std::optional<StackPlace> place_in_stack(const ModelConfig& config, const std::string& name) {
  const ExpertNames* const names = spec_of(config.family).experts;
  const std::size_t at = name.rfind(experts_infix);
  if (names == nullptr || !names->stacked || at == std::string::npos) return {};
  const char* const begin = name.data() + at + experts_infix.size();
  StackPlace place;
  const auto [end, error] = std::from_chars(begin, name.data() + name.size(), place.expert);
  if (error != std::errc() || *end != '.') return {};
  const std::string_view rest(end + 1, name.data() + name.size());
  place.is_bias = rest.ends_with(".bias");
  const std::string_view matrix = rest.substr(0, rest.rfind('.'));
  const bool is_last = matrix == names->down;
  place.parts = is_last ? 1 : 2;
  place.part = matrix == names->up ? 1 : 0;
  place.stack = fmt::format("{}{}{}", name.substr(0, at + experts_infix.size()), is_last ? "down_proj" : "gate_up_proj",
                            place.is_bias ? "_bias" : "");
  return place;
}

Shape stack_shape(const ModelConfig& config, const StackPlace& place, const Shape& one) {
  const std::int64_t outputs = one[0] * place.parts;
  return place.is_bias ? Shape{config.experts.count, outputs} : Shape{config.experts.count, one[1], outputs};
}

void copy_to_stack(const StackPlace& place, const Shape& one, const float* values, float* part) {
  const std::int64_t outputs = one[0], inputs = place.is_bias ? 1 : one[1];
  for (std::int64_t output = 0; output < outputs; ++output)
    for (std::int64_t input = 0; input < inputs; ++input)
      part[(input * outputs + output) * place.parts + place.part] = values[output * inputs + input];
}

ExpertStacks::ExpertStacks(const ModelConfig& config, HfTensors& tensors) {
  for (const NamedShape& tensor : logical_tensors(config)) {
    const auto place = place_in_stack(config, tensor.name);
    if (!place) continue;
    places_.emplace(tensor.name, *place);
    if (stacks_.contains(place->stack)) continue;
    Stack stack{.values = {}, .scales = {}, .shape = stack_shape(config, *place, tensor.shape)};
    if (!place->is_bias && tensors.find(place->stack + "_blocks") != nullptr) {
      stack.values = take_stack(tensors, place->stack + "_blocks");
      stack.scales = take_stack(tensors, place->stack + "_scales");
      const std::int64_t inputs = stack.shape[1], outputs = stack.shape[2];
      if (inputs % mx_group != 0) refuse_stack(stack.values, fmt::format("is mxfp4 of {} inputs, no multiple of 32", inputs));
      check_bytes(stack.values, {config.experts.count, outputs, inputs / mx_group, mx_group_bytes});
      check_bytes(*stack.scales, {config.experts.count, outputs, inputs / mx_group});
    } else {
      stack.values = take_stack(tensors, place->stack);
      stack.values.file->check(stack.values.name, stack.shape);
    }
    stacks_.emplace(place->stack, std::move(stack));
  }
}

std::vector<float> ExpertStacks::read_part(const Stack& stack, std::int64_t expert) const {
  const std::int64_t size = stack.shape.elements() / stack.shape[0];
  std::vector<float> part(static_cast<std::size_t>(size));
  if (!stack.scales) {
    stack.values.read(expert * size, size, part.data());
    return part;
  }
  const std::int64_t inputs = stack.shape[1], outputs = stack.shape[2], groups = size / mx_group;
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(groups * mx_group_bytes)), scales(static_cast<std::size_t>(groups));
  stack.values.file->read_raw(stack.values.name, static_cast<std::uint64_t>(expert * groups * mx_group_bytes), codes.size(),
                              codes.data());
  stack.scales->file->read_raw(stack.scales->name, static_cast<std::uint64_t>(expert * groups), scales.size(), scales.data());
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t output = i / inputs, input = i % inputs;
    const int code = codes[static_cast<std::size_t>(i / 2)] >> (i % 2 == 0 ? 0 : 4) & 15;
    const int exponent = scales[static_cast<std::size_t>(i / mx_group)] - 127;
    part[static_cast<std::size_t>(input * outputs + output)] = std::ldexp(e2m1_values[code], exponent);
  }
  return part;
}

void ExpertStacks::load(const Parameter& parameter, float* out) const {
  const StackPlace& place = places_.at(parameter.name);
  const std::vector<float> part = read_part(stack_of(parameter.name), place.expert);
  const std::int64_t outputs = parameter.full[0], inputs = place.is_bias ? 1 : parameter.full[1];
  read_slice(parameter, out, [&](std::int64_t first, std::int64_t count, float* to) {
    for (std::int64_t i = first; i < first + count; ++i) {
      const std::int64_t output = i / inputs, input = i % inputs;
      to[i - first] = part[static_cast<std::size_t>((input * outputs + output) * place.parts + place.part)];
    }
  });
}

}  // namespace pipetrain
