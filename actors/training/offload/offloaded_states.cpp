#include "actors/training/offload/offloaded_states.hpp"

#include <algorithm>
#include <cassert>
#include <cstdint>

namespace pipetrain {
OffloadedStates::OffloadedStates(const Setup& setup) : setup_(setup), arrays_(setup.blocks.arrays()) {
  Device& device = setup_.device;
  const OffloadedBlocks& blocks = setup_.blocks;
  const std::string what = setup_.name + ": offloaded optimizer states";
  if (blocks.outside_bytes() > 0)
    storage_ = setup_.folder.empty() ? make_host_storage(device, blocks.outside_bytes(), what)
                                     : make_disk_storage(device, setup_.folder, {blocks.outside_bytes(), blocks.block_bytes()});
  memory_ = device.allocate(blocks.device_bytes(), what);
  constexpr std::uintptr_t granularity = OffloadStorage::granularity;
  const auto first = (reinterpret_cast<std::uintptr_t>(memory_.data()) + granularity - 1) / granularity * granularity;
  char* const begin = reinterpret_cast<char*>(first);
  for (std::size_t i = 0; i < blocks.slots(); ++i) slots_.push_back(make_slot(begin + i * blocks.slot_bytes()));
  resident_ = begin + blocks.slots() * blocks.slot_bytes();
  if (const std::size_t bytes = blocks.resident_bytes(); bytes > 0)
    setup_.compute.zero({resident_, {static_cast<std::int64_t>(bytes / sizeof(float))}, DType::f32});
}

std::vector<Tensor> OffloadedStates::arrays_at(char* memory) const {
  std::vector<Tensor> arrays;
  for (std::size_t array = 0; array < setup_.blocks.arrays(); ++array) {
    arrays.push_back({memory, {static_cast<std::int64_t>(setup_.blocks.block_elements())}, DType::f32});
    memory += arrays.back().bytes();
  }
  return arrays;
}

OffloadedStates::Slot OffloadedStates::make_slot(char* memory) const {
  Slot slot;
  slot.memory = memory;
  slot.block.arrays = arrays_at(memory);
  memory += setup_.blocks.block_bytes();
  for (const Window& window : setup_.windows) {
    const auto elements = static_cast<std::int64_t>(setup_.blocks.block_elements());
    slot.block.windows.push_back({memory, {elements}, window.array->type()});
    memory += slot.block.windows.back().bytes();
  }
  slot.fetched = setup_.device.make_event();
  slot.computed = setup_.device.make_event();
  slot.stored = setup_.device.make_event();
  return slot;
}

// A slot is free once its block has been stored.
void OffloadedStates::fetch_next() {
  const OffloadedBlocks& blocks = setup_.blocks;
  Slot& slot = slot_at(fetched_);
  const std::size_t block = blocks.block_at(fetched_++);
  Stream& in = *setup_.streams.in;
  in.wait(*slot.stored);
  const std::size_t bytes = arrays_ * blocks.block_elements() * sizeof(float);
  if (bytes > 0 && blocks.is_outside(block))
    storage_->fetch(in, blocks.outside_before(block) * blocks.block_bytes(), slot.memory, bytes);
  for (std::size_t i = 0; i < setup_.windows.size(); ++i) {
    const Window& window = setup_.windows[i];
    if (window.fetched) window.array->fetch(blocks.region(block), slot.block.windows[i].data);
  }
  in.record(*slot.fetched);
}

void OffloadedStates::fetch_ahead() {
  while (fetched_ < slots_.size()) fetch_next();
}

const OffloadedStates::Block& OffloadedStates::acquire(std::size_t block) {
  const OffloadedBlocks& blocks = setup_.blocks;
  fetch_ahead();
  Slot* slot = nullptr;
  if (blocks.moves(block)) {
    assert(blocks.turn(block) < fetched_);
    slot = &slot_at(blocks.turn(block));
    setup_.compute.wait(*slot->fetched);
  }
  if (slot != nullptr && (blocks.arrays() == 0 || blocks.is_outside(block))) return slot->block;
  here_.arrays = arrays_at(resident(0, blocks.region(block).begin));
  here_.windows = slot != nullptr ? slot->block.windows : std::vector<Tensor>{};
  return here_;
}

void OffloadedStates::release(std::size_t block, Change change) {
  const OffloadedBlocks& blocks = setup_.blocks;
  if (blocks.moves(block)) {
    Slot& slot = slot_at(blocks.turn(block));
    Stream& out = *setup_.streams.out;
    setup_.compute.record(*slot.computed);
    out.wait(*slot.computed);
    if (change == Change::all && blocks.is_outside(block))
      storage_->store(out, blocks.outside_before(block) * blocks.block_bytes(), slot.memory, blocks.block_bytes());
    for (std::size_t i = 0; change != Change::none && i < setup_.windows.size(); ++i) {
      const Window& window = setup_.windows[i];
      if (window.stored) window.array->store(blocks.region(block), slot.block.windows[i].data);
    }
    out.record(*slot.stored);
    if (fetched_ < blocks.moving()) fetch_next();
  }
  if (block + 1 < blocks.count()) return;
  fetched_ = 0;
  arrays_ = blocks.arrays();
}

void OffloadedStates::fetch_only(std::size_t arrays) {
  settle();
  arrays_ = arrays;
}

void OffloadedStates::settle() {
  setup_.streams.synchronize();
  fetched_ = 0;
}

template <class Work>
void OffloadedStates::for_each_block(std::size_t begin, std::size_t count, const Work& work) const {
  const OffloadedBlocks& blocks = setup_.blocks;
  for (const std::size_t end = begin + count; begin < end;) {
    const std::size_t own = std::min(end, blocks.region(blocks.block_of(begin)).end) - begin;
    work(begin, own);
    begin += own;
  }
}

void OffloadedStates::copy_resident(void* to, const void* from, std::size_t count) {
  const std::lock_guard lock(turn_);
  setup_.compute.copy(to, from, count * sizeof(float));
  setup_.compute.synchronize();
}

void OffloadedStates::read(std::size_t array, std::size_t begin, float* values, std::size_t count) {
  settle();
  const OffloadedBlocks& blocks = setup_.blocks;
  for_each_block(begin, count, [&](std::size_t from, std::size_t own) {
    if (blocks.is_outside(blocks.block_of(from))) {
      storage_->read(blocks.begin(array, from), values, own * sizeof(float));
    } else {
      copy_resident(values, resident(array, from), own);
    }
    values += own;
  });
}

void OffloadedStates::write(std::size_t array, std::size_t begin, const float* values, std::size_t count) {
  const OffloadedBlocks& blocks = setup_.blocks;
  for_each_block(begin, count, [&](std::size_t to, std::size_t own) {
    if (blocks.is_outside(blocks.block_of(to))) {
      storage_->write(blocks.begin(array, to), values, own * sizeof(float));
    } else {
      copy_resident(resident(array, to), values, own);
    }
    values += own;
  });
}

}  // namespace pipetrain
