#include "actors/training/copies/state_copies.hpp"

#include <algorithm>
#include <new>
#include <string>

#include "core/error.hpp"

namespace pipetrain {

Buffer plain_copy_memory(std::size_t bytes) {
  constexpr std::align_val_t alignment{tensor_alignment};
  void* const data = ::operator new(bytes, alignment, std::nothrow);
  if (data == nullptr)
    throw Error(ErrorKind::out_of_memory,
                "the host has no " + std::to_string(bytes) + " bytes for a copy of a rank's state; leave elastic out");
  return Buffer(data, bytes, [](void* memory) { ::operator delete(memory, alignment); });
}

void StateCopies::allocate(StateCopy& copy, std::size_t elements) {
  if (copy.memory.bytes() >= elements * sizeof(float)) return;
  copy.whole = false;
  copy.values = {};
  copy.memory = {};
  copy.memory = allocate_(elements * sizeof(float));
}

void StateCopies::reserve(std::size_t elements) {
  for (StateCopy& copy : copies_) allocate(copy, elements);
}

StateCopy* StateCopies::begin(std::int64_t step, std::int64_t applied_steps, std::size_t elements) {
  if (of(step) != nullptr) return nullptr;
  const auto older = [](const StateCopy& a, const StateCopy& b) {
    return a.whole != b.whole ? !a.whole : a.step < b.step;  // a copy that is not whole is of no use
  };
  StateCopy& copy = *std::min_element(copies_.begin(), copies_.end(), older);
  copy.whole = false;
  copy.step = step;
  copy.applied_steps = applied_steps;
  allocate(copy, elements);
  copy.values = {static_cast<float*>(copy.memory.data()), elements};
  return &copy;
}

const StateCopy* StateCopies::of(std::int64_t step) const {
  for (const StateCopy& copy : copies_)
    if (copy.whole && copy.step == step) return &copy;
  return nullptr;
}

std::size_t StateCopies::bytes() const {
  std::size_t bytes = 0;
  for (const StateCopy& copy : copies_) bytes += copy.memory.bytes();
  return bytes;
}

std::vector<std::int64_t> StateCopies::steps() const {
  std::vector<std::int64_t> steps;
  for (const StateCopy& copy : copies_)
    if (copy.whole) steps.push_back(copy.step);
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

}  // namespace pipetrain
