// The latest records of a run's progress in one process, with which it could lead the run. Process 0 sends each with the
// step after it (StepInfo::progress), so who has a copy of a state after a step also has the record of that step.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "core/wire.hpp"

namespace pipetrain {

// Thread-safe.
class StepRecords {
 public:
  // Keeps the record after this step, and forgets old ones. Null records nothing.
  void put(std::int64_t step, const std::shared_ptr<const Bytes>& record);
  std::map<std::int64_t, std::shared_ptr<const Bytes>> all() const;

 private:
  static constexpr std::size_t steps_kept = 4;  // more than copies of a state
  mutable std::mutex mutex_;
  std::map<std::int64_t, std::shared_ptr<const Bytes>> records_;
};

}  // namespace pipetrain
