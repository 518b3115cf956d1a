#include "actors/training/state/quantised_weights.hpp"

#include <algorithm>
#include <cassert>
#include <mutex>
#include <string>

#include "actors/ranks/load_weights.hpp"
#include "core/loading_threads.hpp"
#include "core/threads/on_threads.hpp"
#include "model/quantisation/nf4.hpp"
#include "model/quantisation/quantise.hpp"

namespace pipetrain {
namespace {

// Gives the tensors of a block memory of the arena.
std::vector<Tensor> dequantised_tensors(const BlockParameters& block, DType type, Arena& memory) {
  std::vector<Tensor> tensors;
  for (const StoredTensor& tensor : block.tensors) tensors.push_back(memory.allocate(tensor.shape, type));
  return tensors;
}

// Returns the bytes of the largest block, dequantised.
std::size_t largest_block(const QuantisedWeights::Setup& setup) {
  Arena memory = Arena::measuring();
  for (const BlockParameters& block : setup.layout.blocks) {
    memory.rewind(0);
    dequantised_tensors(block, setup.type, memory);
  }
  return align_up(memory.peak());
}

std::vector<QuantisedMatrix> matrices_without_memory(const QuantisedWeights::Setup& setup) {
  std::vector<QuantisedMatrix> matrices;
  for (const Parameter& parameter : setup.layout.parameters) matrices.push_back({quantised_layout_of(parameter, setup.form)});
  return matrices;
}

std::size_t bytes_of(const std::vector<QuantisedMatrix>& matrices) {
  std::size_t bytes = 0;
  for (const QuantisedMatrix& matrix : matrices) bytes += matrix.layout.bytes;
  return bytes;
}

bool lies_in(const Parameter& parameter, const StoredTensor& tensor) {
  return parameter.offset >= tensor.offset &&
         parameter.offset < tensor.offset + static_cast<std::size_t>(tensor.shape.elements());
}

// Returns the memory of the parameter's slice in its block, dequantised.
Tensor slice_in(const BlockParameters& block, const std::vector<Tensor>& tensors, const Parameter& parameter) {
  const auto tensor = std::find_if(block.tensors.begin(), block.tensors.end(),
                                   [&](const StoredTensor& one) { return lies_in(parameter, one); });
  assert(tensor != block.tensors.end());
  const Tensor& all = tensors[static_cast<std::size_t>(tensor - block.tensors.begin())];
  const std::size_t offset = (parameter.offset - tensor->offset) * size_of(all.dtype);
  return {static_cast<std::byte*>(all.data) + offset, parameter.local, all.dtype};
}

}  // namespace

QuantisedWeights::QuantisedWeights(const Setup& setup, Ops& ops)
    : setup_(setup), ops_(ops), matrices_(matrices_without_memory(setup)), parameters_(setup.layout.blocks.size()) {
  Device& device = ops.stream().device();
  memory_ = device.allocate(bytes_of(matrices_), to_string(setup.rank) + ": quantised parameters");
  auto* data = static_cast<std::byte*>(memory_.data());
  for (QuantisedMatrix& matrix : matrices_) {
    matrix.data = data;
    data += matrix.layout.bytes;
  }
  const auto& blocks = setup.layout.blocks;
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    const auto block = std::find_if(blocks.begin(), blocks.end(), [&](const BlockParameters& one) {
      return std::any_of(one.tensors.begin(), one.tensors.end(),
                         [&](const StoredTensor& tensor) { return lies_in(setup.layout.parameters[i], tensor); });
    });
    parameters_.at(static_cast<std::size_t>(block - blocks.begin())).push_back(i);
  }
  const std::size_t bytes = largest_block(setup);
  const auto count = static_cast<std::size_t>(setup.blocks_in_use);
  values_ = device.allocate(bytes * count, to_string(setup.rank) + ": dequantised parameters");
  for (std::size_t i = 0; i < count; ++i) {
    Slot& slot = slots_.emplace_back();
    slot.data = static_cast<std::byte*>(values_.data()) + i * bytes;
    for (const BlockParameters& block : blocks) {
      Arena memory(slot.data, bytes, "dequantised parameters");
      slot.views.push_back(dequantised_tensors(block, setup.type, memory));
    }
  }
}

QuantisedWeights::Slot& QuantisedWeights::slot_for(std::size_t block) {
  const auto same =
      std::find_if(slots_.begin(), slots_.end(), [&](const Slot& slot) { return slot.block == std::optional(block); });
  if (same != slots_.end()) return *same;
  const auto free = std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.held == 0; });
  assert(free != slots_.end());
  return *free;
}

void QuantisedWeights::dequantise(std::size_t block, const Slot& slot) {
  for (const std::size_t i : parameters_[block]) {
    const Tensor out = slice_in(setup_.layout.blocks[block], slot.views[block], setup_.layout.parameters[i]);
    ops_.dequantise({.matrix = matrices_[i], .out = out});
  }
}

const std::vector<Tensor>& QuantisedWeights::acquire(std::size_t block) {
  Slot& slot = slot_for(block);
  if (slot.block != std::optional(block)) {
    dequantise(block, slot);
    slot.block = block;
  }
  ++slot.held;
  return slot.views[block];
}

void QuantisedWeights::release(std::size_t block) {
  Slot& slot = slot_for(block);
  assert(slot.block == std::optional(block) && slot.held > 0);
  --slot.held;
}

std::optional<QuantisedWeights::DrawingMemory> QuantisedWeights::drawing_memory(const QuantisedLayout& layout) const {
  if (ops_.stream().device().id().kind != DeviceKind::cuda || !is_nf4(layout.form)) return std::nullopt;
  const std::size_t scales = align_up(static_cast<std::size_t>(layout.blocks()) * sizeof(float));
  const std::size_t block = static_cast<std::size_t>(nf4_block) * sizeof(float);
  if (values_.bytes() < scales + block) return std::nullopt;  // many ranks share the matrix
  auto* const memory = static_cast<std::byte*>(values_.data());
  const auto blocks = static_cast<std::int64_t>((values_.bytes() - scales) / block);
  return DrawingMemory{{memory, {layout.blocks()}, DType::f32}, {memory + scales, {blocks * nf4_block}, DType::f32}};
}

void QuantisedWeights::draw(const NormalDraw& draw, const DrawingMemory& memory, const QuantisedMatrix& matrix) {
  const QuantisedLayout& layout = matrix.layout;
  Stream& stream = ops_.stream();
  stream.zero({matrix.data, {static_cast<std::int64_t>(layout.bytes)}, DType::e4m3});
  stream.copy(matrix.data + layout.tables, nf4_level_values.data(), sizeof nf4_level_values);
  if (layout.form == WeightForm::nf4)
    stream.copy(matrix.data + layout.tables + sizeof nf4_level_values, nf4_scale_values().data(), sizeof nf4_scale_values());
  const std::int64_t elements = layout.full.elements();
  for (std::int64_t first = 0; first < elements; first += memory.values.elements()) {
    const Tensor values = memory.values.row_range(0, std::min(memory.values.elements(), elements - first));
    ops_.draw_normals({.draw = draw, .first = first, .out = values});
    ops_.quantise_nf4({.values = values, .first = first, .out = matrix, .scales = memory.scales});
  }
  ops_.code_nf4_scales({.scales = memory.scales, .out = matrix});
}

void QuantisedWeights::load(const WeightSource& source) {
  Stream& stream = ops_.stream();
  std::mutex stream_turn;
  on_threads(loading_threads(stream.device()), matrices_.size(), [&](std::size_t i) {
    const QuantisedMatrix& matrix = matrices_[i];
    const Parameter& slice = setup_.layout.parameters[i];
    const auto drawn = slice.transposed ? std::nullopt : source.drawn(slice);  // the elements are those of files in order
    if (const auto memory = drawn ? drawing_memory(matrix.layout) : std::nullopt) {
      const std::lock_guard lock(stream_turn);
      return draw(*drawn, *memory, matrix);
    }
    const auto bytes = std::make_unique_for_overwrite<std::byte[]>(matrix.layout.bytes);
    if (!source.load_quantised(slice, matrix.layout, bytes.get())) {
      const auto elements = static_cast<std::size_t>(matrix.layout.full.elements());
      const auto whole = std::make_unique_for_overwrite<float[]>(elements);
      source.load(whole_matrix(slice), whole.get());
      quantise(matrix.layout, {whole.get(), elements}, bytes.get());
    }
    const std::lock_guard lock(stream_turn);
    stream.copy(matrix.data, bytes.get(), matrix.layout.bytes);
    stream.synchronize();
  });
  stream.synchronize();
  for (Slot& slot : slots_) slot.block.reset();
}

void QuantisedWeights::read(std::size_t parameter, const Region& elements, float* out) {
  const auto owns = [&](const std::vector<std::size_t>& own) {
    return std::find(own.begin(), own.end(), parameter) != own.end();
  };
  const auto block = static_cast<std::size_t>(std::find_if(parameters_.begin(), parameters_.end(), owns) - parameters_.begin());
  const Tensor values = slice_in(setup_.layout.blocks[block], acquire(block), setup_.layout.parameters[parameter]);
  copy_as_floats(ops_.stream(), values, elements, out);
  release(block);
}

MemoryUse QuantisedWeights::memory(const Setup& setup) {
  MemoryUse use;
  use.parameters = bytes_of(matrices_without_memory(setup));
  use.workspace = static_cast<std::size_t>(setup.blocks_in_use) * largest_block(setup);
  return use;
}

}  // namespace pipetrain
