#include "actors/training/step_results.hpp"

#include <cassert>
#include <utility>

#include "actors/training/trainer.hpp"
#include "model/gradient_norm.hpp"

namespace pipetrain {

StepResults::StepResults(const ParallelLayout& layout, const TrainJob& job)
    : mesh_({.dp = layout.mesh().shape().dp, .pp = layout.mesh().shape().pp}) {
  const auto& shape = layout.mesh().shape();
  for (int stage = 0; stage < shape.pp; ++stage) {
    const auto chunks = layout.chunks_of(stage);
    bool has_head = false;
    for (const auto& blocks : chunks) has_head |= blocks.back().kind == BlockKind::head;
    auto& ranks = stages_.emplace_back();
    for (int tp_rank = 0; tp_rank < shape.tp; ++tp_rank) {
      const ParameterLayout parameters = layout_parameters(job.config, chunks, tp_rank, shape.tp);
      Rank& rank = ranks.emplace_back();
      if (has_head) rank.losses = static_cast<std::size_t>(job.batch.microbatches);
      for (const auto index : counted_parameters(parameters, tp_rank))
        rank.counted.push_back(parameters.parameters[index].name);
    }
  }
}

// All ranks with the head have the same.
double StepResults::loss_sum(const std::vector<StageResult>& results) const {
  double sum = 0;
  for (int i = 0; i < mesh_.size(); ++i) {
    const Rank& first = stages_[static_cast<std::size_t>(mesh_.at(i).pp)].front();
    const StageResult& result = results.at(static_cast<std::size_t>(i));
    for (std::size_t microbatch = 0; microbatch < first.losses; ++microbatch) sum += result.at(microbatch);
  }
  return sum;
}

double StepResults::grad_norm(const std::vector<StageResult>& results) const {
  std::vector<NormPart> parts;
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    const StageResult& result = results.at(static_cast<std::size_t>(mesh_.rank({.pp = static_cast<int>(stage)})));
    std::size_t at = 0;
    for (std::size_t rank = 0; rank < stages_[stage].size(); ++rank) {
      at += stages_[stage][rank].losses;
      for (const std::string& name : stages_[stage][rank].counted) {
        parts.push_back({name, static_cast<int>(rank), result.at(at++)});
      }
    }
    assert(at == result.size());
  }
  return global_norm(std::move(parts));
}

}  // namespace pipetrain
