#include "actors/training/step_results.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "actors/training/state_places.hpp"
#include "actors/training/trainer.hpp"

namespace pipetrain {

StepResults::StepResults(const ParallelLayout& layout, const TrainJob& job)
    : mesh_({.dp = layout.mesh().shape().dp, .pp = layout.mesh().shape().pp}) {
  const auto& shape = layout.mesh().shape();
  counting_replicas_ = place_among(job.zero, shape.dp, 0).replicas;
  for (int i = 0; i < counting_replicas_ * shape.pp; ++i) {
    const MeshCoordinate at = mesh_.at(i);
    const auto chunks = layout.chunks_of(at.pp);
    const bool has_head =
        std::any_of(chunks.begin(), chunks.end(), [](const auto& blocks) { return blocks.back().kind == BlockKind::head; });
    auto& ranks = stages_.emplace_back();
    for (int tp_rank = 0; tp_rank < shape.tp; ++tp_rank) {
      Rank& rank = ranks.emplace_back();
      if (has_head) {
        rank.losses = static_cast<std::size_t>(job.batch.microbatches * job.layout.slices);
        rank.samples = static_cast<std::size_t>(job.batch.microbatches * job.batch.microbatch);
        if (job.evaluation && job.config.classifies())
          rank.own_classes = static_cast<std::size_t>(RowSplit(job.config.outputs(), shape.tp).count(tp_rank));
      }
      rank.parameters = layout_parameters(job.config, chunks, tp_rank, shape.tp);
      const auto units = shard_units(rank.parameters, counting_replicas_);
      rank.counted = counted_parts(rank.parameters, tp_rank, held_parts(rank.parameters, units, at.dp));
    }
  }
}

// All ranks with the head have the same.
void StepResults::add_losses(const std::vector<StageResult>& results, schedules::StepKind kind, double& sum) const {
  for (int i = 0; i < mesh_.size(); ++i) {
    const Rank& first = stages_[static_cast<std::size_t>(mesh_.at(i).pp)].front();  // of the first replica: all are alike
    const StageResult& result = results.at(static_cast<std::size_t>(i));
    const std::size_t begin = kind == schedules::StepKind::evaluation ? first.scores() : 0;
    for (std::size_t microbatch = 0; microbatch < first.losses; ++microbatch) sum += result.at(begin + microbatch);
  }
}

std::int64_t StepResults::class_said(const std::vector<StageResult>& results, int replica, std::int64_t sample) const {
  std::int64_t best = -1, number = 0;
  double most = 0;
  for (std::size_t stage = 0; stage < static_cast<std::size_t>(mesh_.shape().pp); ++stage) {
    const StageResult& result =
        results.at(static_cast<std::size_t>(mesh_.rank({.dp = replica, .pp = static_cast<int>(stage)})));
    std::size_t begin = 0;
    for (const Rank& rank : stages_[stage]) {
      for (std::size_t own = 0; own < rank.own_classes; ++own, ++number) {
        const double score = result.at(begin + static_cast<std::size_t>(sample) * rank.own_classes + own);
        if (best < 0 || score > most) {
          best = number;
          most = score;
        }
      }
      begin += rank.scores() + rank.losses;
    }
  }
  return best;
}

double StepResults::grad_norm(const std::vector<StageResult>& results) const {
  std::vector<NormPart> parts;
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    const StageResult& result = results.at(stage);
    auto at = result.begin();
    for (std::size_t tp_rank = 0; tp_rank < stages_[stage].size(); ++tp_rank) {
      const Rank& rank = stages_[stage][tp_rank];
      at += static_cast<std::ptrdiff_t>(rank.losses);
      const auto end = at + static_cast<std::ptrdiff_t>(count_sums(rank.counted));
      add_norm_parts(rank.parameters, static_cast<int>(tp_rank), rank.counted, {at, end}, parts);
      at = end;
    }
    assert(at == result.end());
  }
  return global_norm(std::move(parts));
}

}  // namespace pipetrain
