#include "records/replayed_record.hpp"

namespace pipetrain {

std::optional<schedules::RecordedStep> ReplayedRecord::next() {
  auto step = reader_.next();
  if (!step) return std::nullopt;
  if (!replay_ || run().membership != replay_->run().membership) {
    actions_ = actions_replayed(), events_ = events_replayed();
    replay_.emplace(run());
  }
  replay_->load(*step);
  return step;
}

}  // namespace pipetrain
