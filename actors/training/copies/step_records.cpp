#include "actors/training/copies/step_records.hpp"

namespace pipetrain {

void StepRecords::put(std::int64_t step, const std::shared_ptr<const Bytes>& record) {
  if (!record) return;
  const std::lock_guard lock(mutex_);
  records_[step] = record;
  while (records_.size() > steps_kept) records_.erase(records_.begin());
}

std::map<std::int64_t, std::shared_ptr<const Bytes>> StepRecords::all() const {
  const std::lock_guard lock(mutex_);
  return records_;
}

}  // namespace pipetrain
