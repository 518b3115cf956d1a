#include "ops/preference.hpp"

#include "core/labels/context_label.hpp"
#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int sequence_threads = 256;

// The functions of core/labels/context_label.hpp are for the host.
__device__ bool belongs_to_context(int target) { return target <= first_context_label; }

__global__ void context_targets_kernel(const int* targets, int tokens, int* out) {
  wait_for_previous();
  const int token = blockIdx.x * blockDim.x + threadIdx.x;
  if (token >= tokens) return;
  const int target = targets[token];
  out[token] = belongs_to_context(target) ? first_context_label - target : target;
}

// One block adds up a sequence, in an order that depends on its length only.
__global__ void sequence_sums_kernel(const float* losses, const int* targets, int length, double* sums) {
  __shared__ double completions[sequence_threads], contexts[sequence_threads];
  wait_for_previous();
  const std::int64_t first = std::int64_t{blockIdx.x} * length;
  double completion = 0, context = 0;
  for (int token = threadIdx.x; token < length; token += sequence_threads) {
    const int target = targets[first + token];
    if (target >= 0) completion += losses[first + token];
    if (belongs_to_context(target)) context += losses[first + token];
  }
  completions[threadIdx.x] = completion;
  contexts[threadIdx.x] = context;
  for (unsigned half = sequence_threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) {
      completions[threadIdx.x] += completions[threadIdx.x + half];
      contexts[threadIdx.x] += contexts[threadIdx.x + half];
    }
  }
  if (threadIdx.x > 0) return;
  sums[2 * blockIdx.x] = completions[0];
  sums[2 * blockIdx.x + 1] = contexts[0];
}

__device__ SequenceSums sums_at(const double* sums, int sequence) { return {sums[2 * sequence], sums[2 * sequence + 1]}; }

__device__ SequenceFacts facts_at(const double* facts, int sequence) {
  const double* const row = facts + preference_facts * sequence;
  return {row[0], fmax(row[1], 1.0), row[2], row[3], row[4]};  // padding has no tokens
}

// One block writes the scales of a sequence's tokens.
__global__ void preference_scales_kernel(PreferenceFormula formula, const double* sums, const double* facts, const int* targets,
                                         int length, float* scales) {
  __shared__ float completion, context;
  wait_for_previous();
  const int sequence = blockIdx.x;
  if (threadIdx.x == 0) {
    const bool has_pairs = formula.loss != PreferenceLoss::kto;
    const int first = has_pairs ? sequence / 2 * 2 : sequence, second = first + 1;
    const SequenceFacts own = facts_at(facts, first);
    const PreferenceTerms terms =
        has_pairs ? pair_terms(formula, sums_at(sums, first), own, sums_at(sums, second), facts_at(facts, second))
                  : sequence_terms(formula, sums_at(sums, first), own);
    completion = static_cast<float>(sequence == first ? terms.by_chosen : terms.by_rejected);
    context = has_pairs && sequence == first ? static_cast<float>(own.likelihood_weight) : 0.0F;
  }
  __syncthreads();
  for (int token = threadIdx.x; token < length; token += sequence_threads) {
    const std::int64_t at = std::int64_t{sequence} * length + token;
    scales[at] = targets[at] >= 0 ? completion : belongs_to_context(targets[at]) ? context : 0.0F;
  }
}

}  // namespace

void context_targets(cudaStream_t stream, const ContextTargetsArgs& args) {
  const std::int64_t tokens = args.targets.elements();
  launch(stream, context_targets_kernel, blocks_for(tokens, 256), 256, 0, data_of<int>(args.targets), static_cast<int>(tokens),
         data_of<int>(args.out));
}

void sequence_sums(cudaStream_t stream, const SequenceSumsArgs& args) {
  const std::int64_t sequences = args.sums.rows();
  launch(stream, sequence_sums_kernel, static_cast<unsigned>(sequences), sequence_threads, 0, data_of<float>(args.token_losses),
         data_of<int>(args.targets), static_cast<int>(args.targets.elements() / sequences), data_of<double>(args.sums));
}

void preference_scales(cudaStream_t stream, const PreferenceScalesArgs& args) {
  const std::int64_t sequences = args.sums.rows();
  launch(stream, preference_scales_kernel, static_cast<unsigned>(sequences), sequence_threads, 0, args.formula,
         data_of<double>(args.sums), data_of<double>(args.facts), data_of<int>(args.targets),
         static_cast<int>(args.targets.elements() / sequences), data_of<float>(args.scales));
}

}  // namespace pipetrain::cuda
