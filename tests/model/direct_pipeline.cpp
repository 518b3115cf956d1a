#include "model/direct_pipeline.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "comm/inproc/inprocess_group.hpp"
#include "model/direct_rank.hpp"
#include "model/parameters/gradient_sums.hpp"
#include "model/parameters/parameter_slice.hpp"

namespace pipetrain::test {
namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

}  // namespace

Chunks cut_blocks(const ModelConfig& config, const std::vector<std::size_t>& positions) {
  Chunks chunks(1);
  const std::vector<Block> blocks = blocks_of(config);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (std::count(positions.begin(), positions.end(), i) > 0) chunks.emplace_back();
    chunks.back().push_back(blocks[i]);
  }
  return chunks;
}

DirectPipeline::DirectPipeline(PipelineSetup setup, const WeightSource& weights) : setup_(std::move(setup)) {
  if (setup_.stages.empty()) setup_.stages = {cut_blocks(setup_.config, {})};
  for (const Block& block : blocks_of(setup_.config)) {
    for (std::size_t stage = 0; stage < setup_.stages.size(); ++stage) {
      for (std::size_t chunk = 0; chunk < setup_.stages[stage].size(); ++chunk) {
        if (setup_.stages[stage][chunk].front() == block) positions_.push_back({stage, static_cast<int>(chunk)});
      }
    }
  }
  if (setup_.tp > 1) groups_ = make_inprocess_groups(setup_.tp);
  for (int r = 0; r < setup_.tp; ++r) {
    ranks_.push_back(std::make_unique<Rank>(setup_, positions_, tensor_parallel(r), weights));
  }
  begin_step();
}

TensorParallel DirectPipeline::tensor_parallel(int rank) const {
  return {setup_.tp > 1 ? groups_[static_cast<std::size_t>(rank)].get() : nullptr, setup_.sequence_parallel};
}

DirectPipeline::~DirectPipeline() {
  for (const auto& rank : ranks_) {
    try {
      rank->stream->synchronize();
    } catch (const std::exception&) {  // the test has seen it
    }
  }
}

void DirectPipeline::synchronize() {
  for (const auto& rank : ranks_) rank->stream->synchronize();
}

void DirectPipeline::begin_step() {
  for (const auto& rank : ranks_) {
    for (Stage& stage : rank->stages) stage.model->begin_step();
  }
}

void DirectPipeline::forward(int slot, const Microbatch& microbatch, std::optional<float> loss_scale) {
  synchronize();  // before the host overwrites data that an earlier microbatch of this slot may still read
  for (const auto& rank : ranks_) {
    Rank::SlotMemory& memory = rank->slot(slot);
    const Shape tokens{setup_.shape.tokens()};
    std::memcpy(memory.ids.data(), microbatch.ids.data(), microbatch.ids.size() * sizeof(std::int32_t));
    std::copy(microbatch.documents.begin(), microbatch.documents.end(), static_cast<std::int32_t*>(memory.documents.data()));
    std::memcpy(memory.targets.data(), microbatch.targets.data(), microbatch.targets.size() * sizeof(std::int32_t));
    for (std::size_t i = 0; i < positions_.size(); ++i) {
      ForwardArgs args;
      args.draws = microbatch.draws;
      if (!microbatch.documents.empty()) args.documents = over(memory.documents, tokens, DType::i32);
      args.input = i == 0 ? over(memory.ids, tokens, DType::i32) : rank->hidden_over(memory.chunks[i].input);
      if (i + 1 < positions_.size()) {
        args.output = rank->hidden_over(memory.chunks[i + 1].input);
      } else {
        args.targets = over(memory.targets, tokens, DType::i32);
        args.loss_sum = over(memory.loss_sum, {1}, DType::f64);
        args.loss_scale = loss_scale;
      }
      StageModel& model = *rank->stages[positions_[i].stage].model;
      model.forward(positions_[i].chunk, args, *memory.chunks[i].slot);
    }
  }
}

void DirectPipeline::backward(int slot, float loss_scale) { run_backward(slot, loss_scale, false); }
void DirectPipeline::input_grad(int slot, float loss_scale) { run_backward(slot, loss_scale, true); }

void DirectPipeline::run_backward(int slot, float loss_scale, bool split) {
  for (const auto& rank : ranks_) {
    Rank::SlotMemory& memory = rank->slot(slot);
    for (std::size_t i = positions_.size(); i-- > 0;) {
      BackwardArgs args;
      if (i + 1 < positions_.size()) args.output_grad = rank->hidden_over(memory.chunks[i + 1].input_grad);
      if (i > 0) args.input_grad = rank->hidden_over(memory.chunks[i].input_grad);
      args.loss_scale = args.sequence_scale = loss_scale;
      StageModel& model = *rank->stages[positions_[i].stage].model;
      if (split) {
        model.input_grad(positions_[i].chunk, args, *memory.chunks[i].slot);
      } else {
        model.backward(positions_[i].chunk, args, *memory.chunks[i].slot);
      }
    }
  }
}

void DirectPipeline::weight_grad(int slot) {
  for (const auto& rank : ranks_) {
    for (std::size_t i = 0; i < positions_.size(); ++i) {
      ActivationSlot& chunk_slot = *rank->slot(slot).chunks[i].slot;
      rank->stages[positions_[i].stage].model->weight_grad(positions_[i].chunk, chunk_slot);
    }
  }
}

double DirectPipeline::loss_sum(int slot) {
  synchronize();
  const auto value = [&](Rank& rank) { return *static_cast<const double*>(rank.slot(slot).loss_sum.data()); };
  for (const auto& rank : ranks_) require(value(*rank) == value(*ranks_.front()), "ranks disagree on the loss");
  return value(*ranks_.front());
}

void DirectPipeline::complete_grads() {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = *ranks_[r];
    const TensorParallel tp = tensor_parallel(static_cast<int>(r));
    for (Stage& stage : rank.stages) {
      const ParameterLayout& layout = stage.model->parameters();
      for (std::size_t chunk = 0; chunk < layout.chunk_grads.size(); ++chunk) {
        const Region region = layout.partial_grads(static_cast<int>(chunk), tp.sequence_parallel);
        const auto begin = static_cast<std::int64_t>(region.begin), end = static_cast<std::int64_t>(region.end);
        sum_partial_grads(stage.arenas.grads.row_range(begin, end), tp, *stage.ops);
      }
    }
    for (Stage& stage : rank.stages) {
      std::vector<CopiedPart> copied;
      for (const Parameter& parameter : stage.model->parameters().parameters) {
        const auto begin = static_cast<std::int64_t>(parameter.grad_offset);
        const Tensor gradient = stage.arenas.grads.row_range(begin, begin + parameter.local.elements());
        if (parameter.copies > 1) copied.push_back(copied_part(parameter, gradient, tp));
      }
      sum_copied_grads(copied, tp, *stage.ops);
    }
    for (Stage& stage : rank.stages) {
      sum_tied_grads(tied_grads(stage.model->parameters(), setup_.config, stage.arenas.grads), *stage.ops);
    }
  }
  synchronize();
  for (const auto& rank : ranks_) exchange_tied_grads(*rank);
  synchronize();
}

void DirectPipeline::exchange_tied_grads(Rank& rank) {
  Stage* embedding = nullptr;
  Stage* head = nullptr;
  const auto tied = [&](const Stage& stage) {
    return tied_grads(stage.model->parameters(), setup_.config, stage.arenas.grads);
  };
  for (Stage& stage : rank.stages) {
    if (tied(stage).has_embedding()) embedding = &stage;
    if (tied(stage).has_copy()) head = &stage;
  }
  if (embedding == head) return;  // one stage, or nothing is tied
  const Tensor mine = tied(*embedding).embedding, other = tied(*head).copy;
  const Buffer copy = poisoned(*rank.device, mine.bytes());
  std::memcpy(copy.data(), mine.data, mine.bytes());
  embedding->ops->add(mine, other);
  rank.stream->synchronize();
  head->ops->add(other, over(copy, mine.shape, DType::f32));
  rank.stream->synchronize();
}

std::vector<NormPart> DirectPipeline::norm_parts() {
  std::vector<NormPart> parts;
  for (int r = 0; r < setup_.tp; ++r) {
    Rank& rank = *ranks_[static_cast<std::size_t>(r)];
    for (Stage& stage : rank.stages) {
      const ParameterLayout& layout = stage.model->parameters();
      const std::vector<CountedPart> counted = counted_parts(layout, r);
      std::vector<double> sums(count_sums(counted));
      const Buffer memory = poisoned(*rank.device, sums.size() * sizeof(double));
      square_sums(counted, *stage.ops, stage.arenas.grads, over(memory, {static_cast<std::int64_t>(sums.size())}, DType::f64));
      rank.stream->synchronize();
      std::copy_n(static_cast<const double*>(memory.data()), sums.size(), sums.begin());
      add_norm_parts(layout, r, counted, sums, parts);
    }
  }
  return parts;
}

void DirectPipeline::optimize(const OptimizerSettings& settings, const OptimizerStep& step) {
  const auto optimizer = make_optimizer(settings);
  for (const auto& rank : ranks_) {
    for (Stage& stage : rank->stages) {
      optimizer_step(whole_parts(stage.model->parameters()), *stage.ops, stage.arenas, *optimizer, step);
    }
  }
}

Tensors DirectPipeline::collect(Arena arena) {
  synchronize();
  Tensors tensors;
  for (const auto& rank : ranks_) {
    for (Stage& stage : rank->stages) {
      for (const Parameter& parameter : stage.model->parameters().parameters) {
        const float* slice = arena == Arena::weights ? stage.arenas.weights.as<float>() + parameter.offset
                                                     : stage.arenas.grads.as<float>() + parameter.grad_offset;
        // Once added to the embedding's, the head's accumulator is no longer a gradient of its own.
        if (parameter.tied_copy && arena == Arena::grads) continue;
        std::vector<float>& full = tensors[parameter.name];
        const auto elements = static_cast<std::size_t>(parameter.full.elements());
        if (full.empty()) full.assign(elements, std::numeric_limits<float>::quiet_NaN());
        const std::vector<float> before = full;
        write_slice(parameter, slice, full.data());
        for (std::size_t i = 0; i < elements; ++i) {
          require(std::isnan(before[i]) || before[i] == full[i], "replicas of a parameter differ");
        }
      }
    }
  }
  return tensors;
}

Tensors DirectPipeline::grads() { return collect(Arena::grads); }
Tensors DirectPipeline::weights() { return collect(Arena::weights); }

void DirectPipeline::shift_weights(const std::string& name, const std::vector<float>& change) {
  synchronize();
  for (const auto& rank : ranks_) {
    for (Stage& stage : rank->stages) {
      std::vector<std::size_t> shifted;  // a weight that both ends of a tie share moves once
      for (const Parameter& parameter : stage.model->parameters().parameters) {
        if (parameter.name != name || std::count(shifted.begin(), shifted.end(), parameter.offset) > 0) continue;
        shifted.push_back(parameter.offset);
        float* slice = stage.arenas.weights.as<float>() + parameter.offset;
        std::vector<float> own(static_cast<std::size_t>(parameter.local.elements()));
        read_slice(parameter, own.data(),
                   [&](std::int64_t first, std::int64_t count, float* to) { std::copy_n(change.begin() + first, count, to); });
        for (std::size_t i = 0; i < own.size(); ++i) slice[i] += own[i];
      }
    }
  }
}

std::vector<ActivationBytes> DirectPipeline::activation_bytes() const {
  std::vector<ActivationBytes> bytes;
  for (const Position& at : positions_) bytes.push_back(ranks_.front()->stages[at.stage].model->activation_bytes(at.chunk));
  return bytes;
}

}  // namespace pipetrain::test
