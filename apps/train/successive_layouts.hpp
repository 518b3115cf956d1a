// The successive layouts of a run in one process.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "apps/options/train_options.hpp"
#include "apps/processes/joined_run.hpp"
#include "apps/train/layout_requests.hpp"
#include "apps/train/open_job.hpp"
#include "apps/train/training_in_layout.hpp"

namespace pipetrain {

class SuccessiveLayouts {
 public:
  // Joins this process with the others of its run. Throws Error.
  explicit SuccessiveLayouts(const TrainOptions& options);

  // Trains until the run ends. Returns the exit status. Throws Error.
  int run();

 private:
  int run_layouts();
  std::optional<int> run_layout();
  std::unique_ptr<TrainingInLayout> begin();
  void end(std::unique_ptr<TrainingInLayout>& training);
  void take_data();
  void take_announced();
  void begin_again(bool gathered);
  void answer(bool changed, const std::string& text) const;
  void keep_page(TrainingInLayout& training);
  void tell_end(const Error& error) noexcept;
  bool leads() const { return joined_ == nullptr || joined_->leads(); }

  TrainOptions options_, before_;
  ServedReport served_;
  std::unique_ptr<JoinedRun> joined_;
  RunLocks locks_;
  LayoutHistory history_;
  RunBefore from_;                      // without states where the run has several processes or saves nothing
  std::optional<LayoutChange> change_;  // until its layout has begun
  std::int64_t step_ = 0;               // after which the layout changes
  bool between_ = false;                // a layout has ended, and the next one has not begun
  std::unique_ptr<ReportFile> page_;    // of the layout that has ended; null: none
};

}  // namespace pipetrain
