#include "actors/training/copies/state_copies.hpp"

#include <algorithm>
#include <new>
#include <string>

#include "core/error.hpp"

namespace pipetrain {

StateCopy* StateCopies::begin(std::int64_t step, std::int64_t applied_steps, std::size_t elements) {
  if (of(step) != nullptr) return nullptr;
  const auto older = [](const StateCopy& a, const StateCopy& b) {
    return a.whole != b.whole ? !a.whole : a.step < b.step;  // a copy that is not whole is of no use
  };
  StateCopy& copy = *std::min_element(copies_.begin(), copies_.end(), older);
  copy.whole = false;
  copy.step = step;
  copy.applied_steps = applied_steps;
  try {
    copy.values.resize(elements);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::out_of_memory, "the host has no " + std::to_string(elements * sizeof(float)) +
                                              " bytes for a copy of a rank's state; leave elastic out");
  }
  return &copy;
}

const StateCopy* StateCopies::of(std::int64_t step) const {
  for (const StateCopy& copy : copies_)
    if (copy.whole && copy.step == step) return &copy;
  return nullptr;
}

std::vector<std::int64_t> StateCopies::steps() const {
  std::vector<std::int64_t> steps;
  for (const StateCopy& copy : copies_)
    if (copy.whole) steps.push_back(copy.step);
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

}  // namespace pipetrain
