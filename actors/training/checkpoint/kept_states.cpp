#include "actors/training/checkpoint/kept_states.hpp"

#include <future>
#include <string>

#include "actors/training/checkpoint/rank_file.hpp"
#include "data/samples/fingerprint.hpp"

namespace pipetrain {

std::string KeptStates::target() { return {"\0states", 7}; }  // no path has a zero byte

void KeptStates::add(int rank, const ParameterLayout& layout, const StateSnapshot& snapshot) {
  auto stored = stored_pieces(rank, layout, snapshot.pieces(), snapshot.memory());
  const std::lock_guard lock(mutex_);
  added_.emplace_back(rank, std::move(stored));
}

void KeptStates::hold(KeptCheckpoint contents) {
  const std::lock_guard lock(mutex_);
  contents.ranks = std::exchange(added_, {});
  held_ = std::make_shared<const KeptCheckpoint>(std::move(contents));
}

void KeptStates::forget() {
  std::shared_ptr<const KeptCheckpoint> gone;
  const std::lock_guard lock(mutex_);
  gone.swap(held_);
}

std::shared_ptr<const KeptCheckpoint> KeptStates::held() const {
  const std::lock_guard lock(mutex_);
  return held_;
}

void write_kept(const KeptCheckpoint& kept, const std::filesystem::path& folder) {
  CheckpointContents contents = kept.contents;
  contents.state.data = data_fingerprint(*kept.data);
  start_checkpoint(folder, contents, [&](const std::string& where) {
    return std::async(std::launch::async, [&kept, where] {
      std::vector<RankFileReport> reports;
      for (const auto& [rank, pieces] : kept.ranks) reports.push_back(write_rank_file(where, rank, *pieces));
      return std::vector<std::string>{text_of(reports)};
    });
  }).get();
}

}  // namespace pipetrain
