// The states of a run between two of its layouts, in host memory: what a checkpoint has, without files. For runs of one
// process.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "actors/training/checkpoint/checkpoint_save.hpp"
#include "actors/training/state/snapshot_memory.hpp"
#include "actors/training/state/state_snapshot.hpp"
#include "model/parameters/parameters.hpp"
#include "model/weights/piecewise_weights.hpp"

namespace pipetrain {

class Dataset;

struct KeptCheckpoint {
  CheckpointContents contents;  // its state has no fingerprint of the data, which takes long to compute
  std::shared_ptr<const Dataset> data, evaluation;
  std::vector<std::pair<int, std::shared_ptr<const StoredPieces>>> ranks = {};  // with their numbers
};

// Thread-safe.
class KeptStates {
 public:
  // Returns a text that Pipeline::save_state() takes in place of a folder's name, so that every rank calls add().
  static std::string target();

  // Returns the memory of the run's snapshots, which its layouts share.
  const std::shared_ptr<SnapshotMemory>& memory() const { return memory_; }
  // Adds the finished snapshot of what a rank stores for the run.
  void add(int rank, const ParameterLayout& layout, const StateSnapshot& snapshot);
  // Called once all ranks have been added: they are held from now on. `contents`: without ranks.
  void hold(KeptCheckpoint contents);
  // Gives the memory of what is held back to the next snapshots, once all sources of it are gone.
  void forget();
  // Returns what is held; null: nothing.
  std::shared_ptr<const KeptCheckpoint> held() const;

 private:
  const std::shared_ptr<SnapshotMemory> memory_ = std::make_shared<SnapshotMemory>();
  mutable std::mutex mutex_;
  std::vector<std::pair<int, std::shared_ptr<const StoredPieces>>> added_;
  std::shared_ptr<const KeptCheckpoint> held_;
};

// Writes FOLDER/step-NNNNNNNN from memory; on disk when it returns. Throws Error(input).
void write_kept(const KeptCheckpoint& kept, const std::filesystem::path& folder);

}  // namespace pipetrain
