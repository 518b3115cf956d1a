#include "actors/training/offload/offloaded_states.hpp"

#include <algorithm>
#include <cassert>
#include <cstdint>

namespace pipetrain {
namespace {

// Moving a block takes milliseconds, many times the delay of a disk or of a copy engine; a few blocks take little memory.
constexpr std::size_t largest_block = std::size_t{4} << 20;
constexpr std::size_t smallest_block = std::size_t{64} << 10;
// A small model has at least as many blocks, so that its transfers overlap too.
constexpr std::size_t least_blocks = 8;
constexpr std::size_t most_state_slots = 3;  // one is fetched, one computed on, one stored

std::size_t block_length(std::size_t elements) {
  const std::size_t wanted = (elements + least_blocks - 1) / least_blocks;
  const std::size_t whole = (wanted + smallest_block - 1) / smallest_block * smallest_block;
  return std::clamp(whole, smallest_block, largest_block);
}

}  // namespace

OffloadedBlocks::OffloadedBlocks(std::size_t arrays, std::size_t elements, std::size_t window_bytes)
    : arrays_(arrays), elements_(elements), block_(block_length(elements)), window_bytes_(window_bytes) {}

Region OffloadedBlocks::region(std::size_t block) const { return {block * block_, std::min(elements_, (block + 1) * block_)}; }

std::size_t OffloadedBlocks::slots() const { return std::min(count(), most_state_slots); }

std::size_t OffloadedBlocks::begin(std::size_t array, std::size_t element) const {
  return block_of(element) * block_bytes() + (array * block_ + element % block_) * sizeof(float);
}

OffloadedStates::OffloadedStates(const Setup& setup) : setup_(setup), arrays_(setup.blocks.arrays()) {
  Device& device = setup_.device;
  const OffloadedBlocks& blocks = setup_.blocks;
  const std::string what = setup_.name + ": offloaded optimizer states";
  if (blocks.arrays() > 0)
    storage_ = setup_.folder.empty() ? make_host_storage(device, blocks.outside_bytes(), what)
                                     : make_disk_storage(device, setup_.folder, {blocks.outside_bytes(), blocks.block_bytes()});
  memory_ = device.allocate(blocks.device_bytes(), what);
  constexpr std::uintptr_t granularity = OffloadStorage::granularity;
  const auto first = (reinterpret_cast<std::uintptr_t>(memory_.data()) + granularity - 1) / granularity * granularity;
  for (std::size_t i = 0; i < blocks.slots(); ++i)
    slots_.push_back(make_slot(reinterpret_cast<char*>(first) + i * blocks.slot_bytes()));
}

OffloadedStates::Slot OffloadedStates::make_slot(char* memory) const {
  Slot slot;
  slot.memory = memory;
  const auto elements = static_cast<std::int64_t>(setup_.blocks.block_elements());
  const auto add = [&](std::vector<Tensor>& tensors, DType type) {
    tensors.push_back({memory, {elements}, type});
    memory += tensors.back().bytes();
  };
  for (std::size_t array = 0; array < setup_.blocks.arrays(); ++array) add(slot.block.arrays, DType::f32);
  for (const Window& window : setup_.windows) add(slot.block.windows, window.array->type());
  slot.fetched = setup_.device.make_event();
  slot.computed = setup_.device.make_event();
  slot.stored = setup_.device.make_event();
  return slot;
}

// A slot is free once its block has been stored.
void OffloadedStates::fetch(std::size_t block) {
  Slot& slot = slot_of(block);
  Stream& in = *setup_.streams.in;
  in.wait(*slot.stored);
  const std::size_t bytes = arrays_ * setup_.blocks.block_elements() * sizeof(float);
  if (bytes > 0) storage_->fetch(in, block * setup_.blocks.block_bytes(), slot.memory, bytes);
  for (std::size_t i = 0; i < setup_.windows.size(); ++i) {
    const Window& window = setup_.windows[i];
    if (window.fetched) window.array->fetch(setup_.blocks.region(block), slot.block.windows[i].data);
  }
  in.record(*slot.fetched);
}

void OffloadedStates::fetch_ahead() {
  for (; fetched_ < slots_.size(); ++fetched_) fetch(fetched_);
}

const OffloadedStates::Block& OffloadedStates::acquire(std::size_t block) {
  fetch_ahead();
  assert(block < fetched_);
  Slot& slot = slot_of(block);
  setup_.compute.wait(*slot.fetched);
  return slot.block;
}

void OffloadedStates::release(std::size_t block, Change change) {
  Slot& slot = slot_of(block);
  Stream& out = *setup_.streams.out;
  setup_.compute.record(*slot.computed);
  out.wait(*slot.computed);
  if (change == Change::all && storage_)
    storage_->store(out, block * setup_.blocks.block_bytes(), slot.memory, setup_.blocks.block_bytes());
  for (std::size_t i = 0; change != Change::none && i < setup_.windows.size(); ++i) {
    const Window& window = setup_.windows[i];
    if (window.stored) window.array->store(setup_.blocks.region(block), slot.block.windows[i].data);
  }
  out.record(*slot.stored);
  if (fetched_ < setup_.blocks.count()) fetch(fetched_++);
  if (block + 1 < setup_.blocks.count()) return;
  fetched_ = 0;
  arrays_ = setup_.blocks.arrays();
}

void OffloadedStates::fetch_only(std::size_t arrays) {
  settle();
  arrays_ = arrays;
}

void OffloadedStates::settle() {
  setup_.streams.synchronize();
  fetched_ = 0;
}

void OffloadedStates::read(std::size_t array, std::size_t begin, float* values, std::size_t count) {
  settle();
  const OffloadedBlocks& blocks = setup_.blocks;
  for (const std::size_t end = begin + count; begin < end;) {
    const std::size_t own = std::min(end, blocks.region(blocks.block_of(begin)).end) - begin;
    storage_->read(blocks.begin(array, begin), values, own * sizeof(float));
    begin += own;
    values += own;
  }
}

void OffloadedStates::write(std::size_t array, std::size_t begin, const float* values, std::size_t count) {
  const OffloadedBlocks& blocks = setup_.blocks;
  for (const std::size_t end = begin + count; begin < end;) {
    const std::size_t own = std::min(end, blocks.region(blocks.block_of(begin)).end) - begin;
    storage_->write(blocks.begin(array, begin), values, own * sizeof(float));
    begin += own;
    values += own;
  }
}

}  // namespace pipetrain
