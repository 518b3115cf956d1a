#include "actors/training/rank/rank_reports.hpp"

#include <algorithm>

#include "model/config/routed_layers.hpp"

namespace pipetrain {

std::int64_t losses_of_microbatch(const ModelConfig& config, std::int64_t batch) {
  if (config.mtp.is_trained()) return 2;
  return config.preference ? 2 * batch : 1;
}

RankReports::RankReports(const RankSetup& setup, const TensorParallel& tp, std::size_t square_sums)
    : batch_(setup.shape.batch),
      prefers_(setup.config.preference),
      microbatch_losses_(losses_of_microbatch(setup.config, setup.shape.batch)) {
  const bool has_head = std::any_of(setup.chunks.begin(), setup.chunks.end(),
                                    [](const auto& blocks) { return blocks.back().kind == BlockKind::head; });
  const std::int64_t microbatches = has_head ? setup.microbatches : 0, losses = microbatches * microbatch_losses_;
  const bool scores = has_head && setup.config.classifies() && setup.evaluation;
  const std::int64_t own_classes = scores ? RowSplit(setup.config.outputs(), tp.size()).count(tp.rank()) : 0;
  scores_ = {nullptr, {microbatches * batch_, own_classes}, DType::f64};
  const std::int64_t before = scores_.elements() + losses, sums = static_cast<std::int64_t>(square_sums);
  const std::int64_t numbers = router_statistics(setup.config);
  all_ = {nullptr, {before + sums + routed_blocks(setup.chunks) * numbers}, DType::f64};
  memory_ = setup.device->allocate(all_.bytes(), to_string(setup.id) + ": losses and norms");
  host_memory_ = setup.device->allocate_host(all_.bytes(), to_string(setup.id) + ": losses and norms");
  all_.data = scores_.data = memory_.data();
  losses_ = all_.row_range(scores_.elements(), before);
  square_sums_ = all_.row_range(before, before + sums);
  std::int64_t begin = before + sums;
  for (const auto& blocks : setup.chunks) {
    const std::int64_t routed = routed_blocks(blocks), end = begin + routed * numbers;
    statistics_.push_back(routed > 0 ? all_.row_range(begin, end).reshaped({routed, numbers}) : Tensor{});
    begin = end;
  }
}

void RankReports::begin_step(Stream& stream, const StepInfo& step) {
  if (step.evaluates()) return;
  for (const Tensor& statistics : statistics_)
    if (statistics.data != nullptr) stream.zero(statistics);
}

void RankReports::add_to(BackwardArgs& backward, int chunk) const {
  backward.router_statistics = statistics_.at(static_cast<std::size_t>(chunk));
}

void RankReports::add_to(ForwardArgs& forward, const schedules::Action& action, const StepInfo& step) const {
  const std::int64_t microbatch = action.microbatch;
  forward.loss_sum = losses_.row_range(microbatch * microbatch_losses_, (microbatch + 1) * microbatch_losses_);
  if (prefers_) forward.loss_sum = forward.loss_sum.reshaped({batch_, 2});
  if (step.evaluates() && scores_.elements() > 0)
    forward.scores = scores_.row_range(microbatch * batch_, (microbatch + 1) * batch_);
}

void RankReports::copy(Stream& stream, const StepInfo& step) {
  begin_ = step.evaluates() ? 0 : scores_.elements();
  end_ = step.evaluates() ? scores_.elements() + losses_.elements() : all_.elements();
  const Tensor wanted = all_.row_range(begin_, end_);
  stream.copy(static_cast<double*>(host_memory_.data()) + begin_, wanted.data, wanted.bytes());
}

void RankReports::add_to(StageResult& result) const {
  const auto* const values = static_cast<const double*>(host_memory_.data());
  result.insert(result.end(), values + begin_, values + end_);
}

}  // namespace pipetrain
