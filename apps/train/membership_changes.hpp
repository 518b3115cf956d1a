// Process 0's side of processes that join and leave an elastic run on purpose, and the lines about those that were lost.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "actors/training/run/trainer.hpp"
#include "actors/training/run/training_run.hpp"
#include "apps/options/train_options.hpp"
#include "apps/train/step_outputs.hpp"

namespace pipetrain {

class JoinedRun;

// Not thread-safe.
class MembershipChanges {
 public:
  // All must outlive this; joined: null in a run of one process.
  MembershipChanges(const TrainOptions& options, Trainer& trainer, TrainingRun& run, JoinedRun* joined, StepOutputs& outputs)
      : options_(options), trainer_(trainer), run_(run), joined_(joined), outputs_(outputs) {}
  // Removes the run's address from its save folder.
  ~MembershipChanges();
  MembershipChanges(const MembershipChanges&) = delete;
  MembershipChanges& operator=(const MembershipChanges&) = delete;

  // Between two steps: hands over the ranks of processes that have asked to leave, and lets those in that are ready to join.
  // Does not return where this process leaves. Throws as Trainer::step().
  void change();
  // Prints a line for each takeover that it has not printed yet.
  void print(const std::vector<Takeover>& takeovers);

 private:
  void let_leave();
  void let_join();
  void write_address();
  [[noreturn]] void leave();

  const TrainOptions& options_;
  Trainer& trainer_;
  TrainingRun& run_;
  JoinedRun* joined_;
  StepOutputs& outputs_;
  std::string written_door_;
  std::chrono::steady_clock::time_point looked_{};
  int printed_membership_ = 0;  // of the last takeover that was printed
};

}  // namespace pipetrain
