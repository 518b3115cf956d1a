#include "apps/train/save_kept.hpp"

#include <fmt/format.h>

#include <exception>

#include "apps/output/stderr_lines.hpp"

namespace pipetrain {

void save_kept(const std::shared_ptr<KeptStates>& kept, const TrainOptions& options, const RunLocks& locks) noexcept {
  try {
    const auto held = kept ? kept->held() : nullptr;
    if (!held) return;
    if (locks.save) locks.save->check();
    write_kept(*held, *options.run.saving.folder);
    print_over_progress(
        fmt::format("a checkpoint of step {} is saved, after which the layout changed", held->contents.state.step));
  } catch (const std::exception& error) {  // the failure that ends the run is the one to report
    print_over_progress(fmt::format("the states from before the change of the layout are lost: {}", error.what()));
  }
}

}  // namespace pipetrain
