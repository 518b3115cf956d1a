#include "actors/training/state/eight_bit_optimizer.hpp"

#include <algorithm>
#include <cassert>

#include "model/parameters/arena_views.hpp"

namespace pipetrain {
namespace {

std::size_t blocks_of(std::size_t elements) {
  return (elements + static_cast<std::size_t>(eight_bit_block) - 1) / static_cast<std::size_t>(eight_bit_block);
}

// The codes and magnitudes of a part in host memory.
struct HostMoment {
  std::vector<std::uint8_t> codes;
  std::vector<float> magnitudes;

  explicit HostMoment(std::size_t elements) : codes(elements), magnitudes(blocks_of(elements)) {}
  EightBitState state() { return {codes.data(), magnitudes.data()}; }
};

using Part = EightBitPlaces::Part;

// One operation steps the experts of a layer, whose matrices lie side by side and end with whole blocks.
bool follows(const Part& part, const Part& before) {
  const std::size_t elements = before.held.part.size();
  const bool ends_block = before.in_fp32 || elements % static_cast<std::size_t>(eight_bit_block) == 0;
  return ends_block && part.in_fp32 == before.in_fp32 && part.decays == before.decays &&
         part.held.weight == before.held.weight + elements && part.held.grad == before.held.grad + elements &&
         part.held.rounded == before.held.rounded + elements;
}

// Calls body with each row of parts that follow one another.
template <class Part, class Body>
void for_each_row(std::span<Part> parts, Body body) {
  while (!parts.empty()) {
    std::size_t count = 1;
    while (count < parts.size() && parts[count].follows) ++count;
    body(parts.first(count));
    parts = parts.subspan(count);
  }
}

}  // namespace

EightBitPlaces::EightBitPlaces(const StatePlaces& places) {
  for (const auto& unit : places.held_places()) {
    auto& own = parts_.emplace_back();
    for (const HeldPlace& held : unit) {
      const Parameter& parameter = places.layout().parameters[held.part.parameter];
      own.push_back(
          {.held = held, .in_fp32 = parameter.full.elements() < least_eight_bit_elements, .decays = parameter.decays});
    }
    std::sort(own.begin(), own.end(), [](const Part& a, const Part& b) { return a.held.weight < b.held.weight; });
    for (std::size_t i = 1; i < own.size(); ++i) own[i].follows = pipetrain::follows(own[i], own[i - 1]);
    for_each_row(std::span(own), [&](std::span<Part> row) { place(row); });
  }
}

void EightBitPlaces::place(std::span<Part> row) {
  for (Part& part : row) {
    part.codes = bytes_;
    if (!part.in_fp32) bytes_ += part.held.part.size();
  }
  bytes_ = align_up(bytes_);
  for (Part& part : row) {
    part.values = bytes_;
    bytes_ += (part.in_fp32 ? part.held.part.size() : blocks_of(part.held.part.size())) * sizeof(float);
  }
  bytes_ = align_up(bytes_);
}

EightBitOptimizer::EightBitOptimizer(const Setup& setup) : ResidentOptimizer(setup, {}), places_(setup.places) {
  for (const auto& unit : places_.by_unit())
    for (const Part& part : unit) by_state_.push_back(&part);
  std::sort(by_state_.begin(), by_state_.end(), [](const auto* a, const auto* b) { return a->held.state < b->held.state; });
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    const Tensor memory =
        allocate(places_.bytes() / sizeof(float), DType::f32, "optimizer state " + setup.optimizer.states()[i]);
    memory_[i] = static_cast<char*>(memory.data);
    setup.ops.stream().zero(memory);
  }
}

std::size_t EightBitOptimizer::moment(const std::string& state) const {
  const auto& names = setup().optimizer.states();
  const auto found = std::find(names.begin(), names.end(), state);
  if (found == names.end()) throw_unknown_state(state);
  return static_cast<std::size_t>(found - names.begin());
}

float* EightBitOptimizer::on_device(const std::string& state) const {
  if (state == weights_state) return ResidentOptimizer::on_device(state);
  static_cast<void>(moment(state));
  return nullptr;
}

const Part& EightBitOptimizer::part_at(std::size_t state_begin) const {
  const auto after = std::upper_bound(by_state_.begin(), by_state_.end(), state_begin,
                                      [](std::size_t at, const auto* part) { return at < part->held.state; });
  assert(after != by_state_.begin());
  return **std::prev(after);
}

EightBitState EightBitOptimizer::on_device(std::size_t moment, const Part& part) const {
  return {reinterpret_cast<std::uint8_t*>(memory_[moment] + part.codes),
          reinterpret_cast<float*>(memory_[moment] + part.values)};
}

void EightBitOptimizer::read(const std::string& state, std::size_t begin, float* values, std::size_t count) {
  if (state == weights_state) return ResidentOptimizer::read(state, begin, values, count);
  const Part& part = part_at(begin);
  const EightBitState own = on_device(moment(state), part);
  const std::size_t first = begin - part.held.state, elements = part.held.part.size();
  assert(first + count <= elements);
  Stream& stream = setup().ops.stream();
  if (part.in_fp32) {
    stream.copy(values, own.magnitudes + first, count * sizeof(float));
    return stream.synchronize();
  }
  HostMoment host(elements);
  stream.copy(host.codes.data(), own.codes, elements);
  stream.copy(host.magnitudes.data(), own.magnitudes, host.magnitudes.size() * sizeof(float));
  stream.synchronize();
  std::vector<float> all(elements);
  read_eight_bits(host.state(), moment(state) == 0, static_cast<std::int64_t>(elements), all.data());
  std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(first), count, values);
}

void EightBitOptimizer::begin_writing(const std::string& state) {
  if (state == weights_state) return ResidentOptimizer::begin_writing(state);
  static_cast<void>(moment(state));
  setup().ops.stream().synchronize();
}

void EightBitOptimizer::write(const std::string& state, std::size_t begin, const float* values, std::size_t count) {
  if (state == weights_state) return ResidentOptimizer::write(state, begin, values, count);
  const Part& part = part_at(begin);
  const EightBitState own = on_device(moment(state), part);
  assert(begin == part.held.state && count == part.held.part.size());
  HostMoment host(part.in_fp32 ? 0 : count);
  if (!part.in_fp32) write_eight_bits(values, moment(state) == 0, static_cast<std::int64_t>(count), host.state());
  Stream& stream = setup().ops.stream();
  const std::lock_guard lock(turn_);
  if (part.in_fp32) {
    stream.copy(own.magnitudes, values, count * sizeof(float));
  } else {
    stream.copy(own.codes, host.codes.data(), count);
    stream.copy(own.magnitudes, host.magnitudes.data(), host.magnitudes.size() * sizeof(float));
  }
  stream.synchronize();
}

void EightBitOptimizer::step_unit(std::span<const Part> parts, const OptimizerArenas& arenas, const OptimizerStep& step,
                                  bool is_preview) {
  for_each_row(parts, [&](std::span<const Part> row) { step_row(row, arenas, step, is_preview); });
}

void EightBitOptimizer::step_row(std::span<const Part> row, const OptimizerArenas& arenas, const OptimizerStep& step,
                                 bool is_preview) {
  const Part& first = row.front();
  std::size_t elements = 0;
  for (const Part& part : row) elements += part.held.part.size();
  const UpdateRule rule = setup().optimizer.rule(step, first.decays);
  const Tensor weight = span(arenas.weights, first.held.weight, elements), grad = span(arenas.grads, first.held.grad, elements);
  std::optional<Tensor> rounded;
  if (arenas.rounded.data != nullptr) rounded = span(arenas.rounded, first.held.rounded, elements);
  if (first.in_fp32) {
    UpdateArgs args{.weight = weight, .grad = grad, .states = {}, .rounded = rounded, .preview = is_preview, .rule = rule};
    for (std::size_t i = 0; i < memory_.size(); ++i)
      args.states[i] = {on_device(i, first).magnitudes, {static_cast<std::int64_t>(elements)}, DType::f32};
    return setup().ops.update(args);
  }
  setup().ops.eight_bit_update({.weight = weight,
                                .grad = grad,
                                .states = {on_device(0, first), on_device(1, first)},
                                .rounded = rounded,
                                .preview = is_preview,
                                .rule = std::get<AdamW>(rule)});
}

void EightBitOptimizer::preview(const Tensor& grads, const OptimizerStep& step) {
  const OptimizerArenas own = arenas(grads);
  for (const auto& unit : places_.by_unit()) step_unit(unit, own, step, true);
}

void EightBitOptimizer::step(const Tensor& grads, const OptimizerStep& step, const Listener& listener) {
  const OptimizerArenas own = arenas(grads);
  for (std::size_t unit = 0; unit < places_.by_unit().size(); ++unit) {
    listener.steps(unit);
    step_unit(places_.by_unit()[unit], own, step, false);
    listener.stepped(unit);
  }
}

}  // namespace pipetrain
