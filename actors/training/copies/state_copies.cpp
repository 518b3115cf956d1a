#include "actors/training/copies/state_copies.hpp"

#include <algorithm>
#include <new>
#include <string>

#include "core/error.hpp"

namespace pipetrain {
namespace {

constexpr std::size_t records_bytes = 4096;  // values begin at a page

// Pages take memory once they are written, so that a run begins before its first copies are made.
Buffer own_copy_memory(std::size_t bytes) {
  constexpr std::align_val_t alignment{tensor_alignment};
  void* const data = ::operator new(bytes, alignment, std::nothrow);
  if (data == nullptr)
    throw Error(ErrorKind::out_of_memory,
                "the host has no " + std::to_string(bytes) + " bytes for copies of a rank's state; leave elastic out");
  return Buffer(data, bytes, [](void* memory) { ::operator delete(memory, alignment); });
}

}  // namespace

struct StateCopies::Records {
  std::array<StateCopy::Record, 2> of_copies;
};

std::size_t StateCopies::bytes_of(std::size_t elements) {
  static_assert(sizeof(Records) <= records_bytes);
  return records_bytes + 2 * align_up(elements * sizeof(float));
}

void StateCopies::place(void* memory, std::size_t elements) {
  auto* const records = static_cast<Records*>(memory);
  auto* next = static_cast<std::byte*>(memory) + records_bytes;
  for (std::size_t i = 0; i < copies_.size(); ++i, next += align_up(elements * sizeof(float)))
    copies_[i] = {&records->of_copies[i], {reinterpret_cast<float*>(next), elements}};
  elements_ = elements;
}

StateCopies::StateCopies(const SharedMemory::Key& key, std::size_t elements)
    : kind_(CopyMemory::shared), memory_(SharedMemory::open(key)), locked_(std::make_shared<LockedChunks>(memory_)) {
  if (elements > memory_->bytes() || memory_->bytes() < bytes_of(elements))
    throw Error(ErrorKind::peer_lost, "shared memory is too small for the copies that it should have");
  place(memory_->data(), elements);
}

void StateCopies::reserve(std::size_t elements) {
  if (copies_.front().record != nullptr && elements_ == elements) return;
  copies_ = {};
  own_ = {};
  locked_ = {};
  memory_ = {};
  const std::size_t bytes = bytes_of(elements);
  if (is_shared()) {
    memory_ = SharedMemory::make(bytes);
    locked_ = std::make_shared<LockedChunks>(memory_);
    new (memory_->data()) Records;
    return place(memory_->data(), elements);
  }
  own_ = own_copy_memory(bytes);
  new (own_.data()) Records;
  place(own_.data(), elements);
}

StateCopy* StateCopies::begin(std::int64_t step, std::int64_t applied_steps, std::size_t elements) {
  if (of(step) != nullptr) return nullptr;
  reserve(elements);
  const auto older = [](const StateCopy& a, const StateCopy& b) {
    return a.is_whole() != b.is_whole() ? !a.is_whole() : a.step() < b.step();  // a copy that is not whole is of no use
  };
  StateCopy& copy = *std::min_element(copies_.begin(), copies_.end(), older);
  copy.record->whole = false;
  copy.record->step = step;
  copy.record->applied_steps = applied_steps;
  return &copy;
}

const StateCopy* StateCopies::of(std::int64_t step) const {
  for (const StateCopy& copy : copies_)
    if (copy.record != nullptr && copy.is_whole() && copy.step() == step) return &copy;
  return nullptr;
}

std::vector<std::int64_t> StateCopies::steps() const {
  std::vector<std::int64_t> steps;
  for (const StateCopy& copy : copies_)
    if (copy.record != nullptr && copy.is_whole()) steps.push_back(copy.step());
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

}  // namespace pipetrain
