#include "actors/training/rank/step_inputs.hpp"

#include <span>
#include <string>
#include <vector>

#include "actors/training/input/preference_pass.hpp"
#include "actors/training/rank/rank_memory.hpp"
#include "core/error.hpp"
#include "model/context/document_starts.hpp"

namespace pipetrain {

StepInputs::StepInputs(const RankSetup& setup, Stream& compute)
    : setup_(setup), compute_(compute), sequence_{setup.context, setup.sequence, setup.slices} {
  if (!setup.isolates_documents) return;
  documents_memory_ = setup.device->allocate(documents_bytes(setup), to_string(setup.id) + ": documents");
  documents_host_memory_ = setup.device->allocate_host(documents_bytes(setup), to_string(setup.id) + ": documents");
}

void StepInputs::begin(const StepInfo& step) {
  step_ = step;
  samples_ = setup_.config.preference ? samples_of(step, setup_.training, setup_.evaluation)
             : step.evaluates()       ? setup_.evaluation
                                      : setup_.training;
  sequence_.tokens = samples_->size(step.step).sequence / setup_.context.size;
  if (sequence_.tokens < setup_.slices)
    throw Error(ErrorKind::input, {"slices", std::to_string(setup_.slices)},
                "step " + std::to_string(step.step) + " has samples of " + std::to_string(sequence_.tokens) +
                    " tokens, fewer than that; use fewer slices");
  if (setup_.isolates_documents) load_documents();
}

// The host buffer is free: its last copy belongs to forwards that have ended, or to the previous step.
void StepInputs::load_documents() {
  const std::int64_t whole = sequence_.tokens * setup_.context.size;
  const std::int64_t tokens = setup_.microbatches / setup_.slices * setup_.shape.batch * sequence_.tokens;
  documents_ = {documents_memory_.data(), {computes_parts(setup_) ? 2 : 1, tokens}, DType::i32};
  const Tensor host{documents_host_memory_.data(), documents_.shape, documents_.dtype};
  const auto values = [&](std::int64_t row, int microbatch) {
    const Tensor part = of_microbatch(host, row, microbatch);
    return std::span(part.as<std::int32_t>(), part.data == nullptr ? 0 : static_cast<std::size_t>(part.elements()));
  };
  std::vector<std::int32_t> begins(static_cast<std::size_t>(setup_.shape.batch * whole));
  for (int microbatch = 0; microbatch < setup_.microbatches; ++microbatch) {
    const int slice = microbatch % setup_.slices;
    if (slice == 0) samples_->read_documents({step_.step, setup_.data_replica, microbatch / setup_.slices}, whole, begins);
    split_documents(sequence_.part(slice), whole, begins, {values(0, microbatch), values(1, microbatch)});
  }
  compute_.copy(documents_.data, host.data, documents_.bytes());
}

// Returns the row's values for the tokens of a microbatch; a tensor without memory where there is no such row.
Tensor StepInputs::of_microbatch(const Tensor& documents, std::int64_t row, int microbatch) const {
  if (row >= documents.rows()) return {};
  const int slice = microbatch % setup_.slices;
  const std::int64_t begin =
      setup_.shape.batch * (microbatch / setup_.slices * sequence_.tokens + sequence_.split().begin(slice));
  return documents.row_range(row, row + 1)
      .reshaped({documents.cols()})
      .row_range(begin, begin + setup_.shape.batch * sequence_.count(slice));
}

std::optional<SliceArgs> StepInputs::slice(int microbatch) const {
  if (setup_.slices == 1) return std::nullopt;
  const int slice = microbatch % setup_.slices;
  return SliceArgs{sequence_.part(slice).first, slice == setup_.slices - 1};
}

// Counts samples in the order of Sampler.
DropoutDraws StepInputs::draws(int microbatch) const {
  const std::int64_t before =
      std::int64_t{setup_.data_replica} * (setup_.microbatches / setup_.slices) + microbatch / setup_.slices;
  return {.seed = setup_.samples.seed, .step = step_.step, .first_sample = before * setup_.shape.batch};
}

void StepInputs::add_to(ForwardArgs& forward, int microbatch) const {
  forward.slice = slice(microbatch);
  if (!step_.evaluates()) forward.draws = draws(microbatch);
  if (documents_.data == nullptr) return;
  forward.documents = of_microbatch(documents_, 0, microbatch);
  forward.origins = of_microbatch(documents_, 1, microbatch);
}

}  // namespace pipetrain
