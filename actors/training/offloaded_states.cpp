#include "actors/training/offloaded_states.hpp"

#include <algorithm>
#include <cassert>
#include <cstdint>

namespace pipetrain {
namespace {

// A block takes milliseconds to move, many times the delay of a disk or of a copy engine, and a few of them little memory.
constexpr std::size_t largest_block = std::size_t{4} << 20;
constexpr std::size_t smallest_block = std::size_t{64} << 10;
// Of a small model there are as many, so that transfers hide behind one another there too.
constexpr std::size_t least_blocks = 8;
constexpr std::size_t most_slots = 3;  // one comes in, one is computed on, one goes out

std::size_t block_length(std::size_t elements) {
  const std::size_t wanted = (elements + least_blocks - 1) / least_blocks;
  const std::size_t whole = (wanted + smallest_block - 1) / smallest_block * smallest_block;
  return std::clamp(whole, smallest_block, largest_block);
}

}  // namespace

OffloadedBlocks::OffloadedBlocks(std::size_t arrays, std::size_t elements)
    : arrays_(arrays), elements_(elements), block_(block_length(elements)) {}

Region OffloadedBlocks::region(std::size_t block) const { return {block * block_, std::min(elements_, (block + 1) * block_)}; }

std::size_t OffloadedBlocks::slots() const { return std::min(count(), most_slots); }

std::size_t OffloadedBlocks::begin(std::size_t array, std::size_t element) const {
  return block_of(element) * block_bytes() + (array * block_ + element % block_) * sizeof(float);
}

OffloadedStates::OffloadedStates(const Setup& setup) : setup_(setup) {
  Device& device = setup_.device;
  const OffloadedBlocks& blocks = setup_.blocks;
  const std::string what = setup_.name + ": offloaded optimizer states";
  place_ = setup_.folder.empty() ? make_host_place(device, blocks.outside_bytes(), what)
                                 : make_disk_place(device, setup_.folder, {blocks.outside_bytes(), blocks.block_bytes()});
  memory_ = device.allocate(blocks.device_bytes(), what);
  in_ = device.make_stream(setup_.name + " in");
  out_ = device.make_stream(setup_.name + " out");
  constexpr std::uintptr_t granularity = OffloadPlace::granularity;
  const auto first = (reinterpret_cast<std::uintptr_t>(memory_.data()) + granularity - 1) / granularity * granularity;
  for (std::size_t i = 0; i < blocks.slots(); ++i) {
    Slot slot;
    slot.memory = reinterpret_cast<char*>(first) + i * blocks.block_bytes();
    const auto elements = static_cast<std::int64_t>(blocks.block_elements());
    for (std::size_t array = 0; array < blocks.arrays(); ++array)
      slot.tensors.push_back({slot.memory + array * blocks.block_elements() * sizeof(float), {elements}, DType::f32});
    slot.fetched = device.make_event();
    slot.computed = device.make_event();
    slot.stored = device.make_event();
    slots_.push_back(std::move(slot));
  }
}

// A slot is free once what was in it has been stored.
void OffloadedStates::fetch(std::size_t block) {
  Slot& slot = slot_of(block);
  in_->wait(*slot.stored);
  place_->fetch(*in_, block * setup_.blocks.block_bytes(), slot.memory, setup_.blocks.block_bytes());
  in_->record(*slot.fetched);
}

void OffloadedStates::fetch_ahead() {
  for (; fetched_ < slots_.size(); ++fetched_) fetch(fetched_);
}

const std::vector<Tensor>& OffloadedStates::acquire(std::size_t block) {
  fetch_ahead();
  assert(block < fetched_);
  Slot& slot = slot_of(block);
  setup_.compute.wait(*slot.fetched);
  return slot.tensors;
}

void OffloadedStates::release(std::size_t block, Change change) {
  Slot& slot = slot_of(block);
  setup_.compute.record(*slot.computed);
  out_->wait(*slot.computed);
  if (change == Change::stored)
    place_->store(*out_, block * setup_.blocks.block_bytes(), slot.memory, setup_.blocks.block_bytes());
  out_->record(*slot.stored);
  if (fetched_ < setup_.blocks.count()) fetch(fetched_++);
  if (block + 1 == setup_.blocks.count()) fetched_ = 0;
}

void OffloadedStates::settle() {
  in_->synchronize();
  out_->synchronize();
  fetched_ = 0;  // what is in slots may be written over outside
}

void OffloadedStates::read(std::size_t array, std::size_t begin, float* values, std::size_t count) {
  settle();
  const OffloadedBlocks& blocks = setup_.blocks;
  for (const std::size_t end = begin + count; begin < end;) {
    const std::size_t own = std::min(end, blocks.region(blocks.block_of(begin)).end) - begin;
    place_->read(blocks.begin(array, begin), values, own * sizeof(float));
    begin += own;
    values += own;
  }
}

void OffloadedStates::write(std::size_t array, std::size_t begin, const float* values, std::size_t count) {
  settle();
  const OffloadedBlocks& blocks = setup_.blocks;
  for (const std::size_t end = begin + count; begin < end;) {
    const std::size_t own = std::min(end, blocks.region(blocks.block_of(begin)).end) - begin;
    place_->write(blocks.begin(array, begin), values, own * sizeof(float));
    begin += own;
    values += own;
  }
}

}  // namespace pipetrain
