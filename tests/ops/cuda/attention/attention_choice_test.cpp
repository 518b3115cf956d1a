// The choice of the kernel that computes an attention on a GPU is a pure function of shapes and types, which needs no GPU.
#include "ops/cuda/attention/attention_choice.hpp"

#include <optional>
#include <vector>

#include "catch.hpp"
#include "ops/ops.hpp"

namespace pipetrain::testing {
namespace {

using cuda::AttentionKernel;
using enum cuda::AttentionKernel;

constexpr cuda::HopperGpu hopper_chip{.available = true, .multiprocessors = 132},
    older_chip{.available = false, .multiprocessors = 108};
const Dropout attention_dropout{.key = {1, 2}, .dropped = 6000};

struct AttentionTraits {
  DType dtype = DType::bf16;
  bool documents = false, dropout = false;
};

std::optional<Tensor> choice_documents(const SegmentShape& shape, const AttentionTraits& of) {
  return of.documents ? std::optional(Tensor{nullptr, {shape.tokens()}, DType::i32}) : std::nullopt;
}

// Packed queries, keys and values, or separate keys and values if the shape is not a whole sequence's.
Tensor packed_queries(const SegmentShape& shape, DType dtype) {
  return {nullptr, {shape.tokens(), shape.packed_cols()}, dtype};
}
Tensor choice_keys(const SegmentShape& shape, DType dtype) {
  return {nullptr, {shape.batch * shape.keys, shape.is_whole() ? shape.packed_cols() : shape.key_value_cols()}, dtype};
}

AttentionArgs forward_args(const SegmentShape& shape, const AttentionTraits& of) {
  return {.q = packed_queries(shape, of.dtype),
          .kv = choice_keys(shape, of.dtype),
          .out = {nullptr, {shape.tokens(), shape.output_cols()}, of.dtype},
          .log_sum_exp = {},
          .documents = choice_documents(shape, of),
          .dropout = of.dropout ? attention_dropout : Dropout{}};
}

// A whole sequence's gradients are rounded into one packed matrix; a segment's dK and dV are sums in f32.
AttentionBackwardArgs backward_args(const SegmentShape& shape, const AttentionTraits& of) {
  const bool whole = shape.is_whole();
  return {.dout = {nullptr, {shape.tokens(), shape.output_cols()}, of.dtype},
          .q = packed_queries(shape, of.dtype),
          .kv = choice_keys(shape, of.dtype),
          .out = {nullptr, {shape.tokens(), shape.output_cols()}, of.dtype},
          .log_sum_exp = {},
          .dq = packed_queries(shape, of.dtype),
          .dkv = choice_keys(shape, whole ? of.dtype : DType::f32),
          .accumulate_dkv = whole ? Accumulate::no : Accumulate::yes,
          .documents = choice_documents(shape, of),
          .dropout = of.dropout ? attention_dropout : Dropout{}};
}

struct AttentionKernels {
  AttentionKernel forward, backward, backward_on_hopper;
  bool operator==(const AttentionKernels&) const = default;
};

AttentionKernels kernels_of(const SegmentShape& shape, const AttentionTraits& of) {
  return {cuda::attention_kernel(shape, forward_args(shape, of)),
          cuda::attention_backward_kernel(shape, backward_args(shape, of), older_chip),
          cuda::attention_backward_kernel(shape, backward_args(shape, of), hopper_chip)};
}

TEST_CASE("a whole sequence's kernels follow its type, its heads, documents, dropout and the GPU", "[ops][attention_choice]") {
  struct Case {
    std::int64_t sequence, head_dim;
    AttentionTraits of;
    AttentionKernels kernels;
  };
  const std::vector<Case> cases{
      {1024, 128, {DType::f32}, {exact, exact, exact}},
      {1024, 64, {DType::f32, true, true}, {exact, exact, exact}},
      {1024, 128, {DType::bf16}, {cudnn, cudnn, hopper}},
      {1024, 64, {DType::f16}, {cudnn, cudnn, hopper}},
      {1000, 128, {DType::bf16}, {cudnn, cudnn, hopper}},
      {1024, 96, {DType::bf16}, {cudnn, cudnn, hopper}},
      {1024, 80, {DType::bf16}, {cudnn, cudnn, cudnn}},
      {1024, 256, {DType::bf16}, {cudnn, cudnn, hopper}},
      {1088, 256, {DType::f16}, {cudnn, cudnn, hopper}},
      {1000, 256, {DType::bf16}, {cudnn, cudnn, hopper}},
      {1024, 192, {DType::bf16}, {cudnn, cudnn, cudnn}},
      {1024, 128, {DType::bf16, true, false}, {mma, mma, hopper}},
      {1000, 128, {DType::bf16, true, false}, {mma, mma, hopper}},
      {1024, 64, {DType::bf16, false, true}, {mma, mma, mma}},
      {1024, 64, {DType::bf16, true, true}, {mma, mma, mma}},
      {1024, 256, {DType::bf16, true, false}, {mma, mma, hopper}},
      {1024, 256, {DType::bf16, false, true}, {mma, mma, mma}},
      {1024, 64, {DType::f16, true, false}, {exact, exact, hopper}},
      {1024, 64, {DType::f16, false, true}, {exact, exact, exact}},
  };
  for (const Case& one : cases) {
    INFO(one.sequence << " tokens, heads of " << one.head_dim << ", " << to_string(one.of.dtype)
                      << (one.of.documents ? ", documents" : "") << (one.of.dropout ? ", dropout" : ""));
    CHECK((kernels_of(whole_sequences(2, one.sequence, {8, 2, one.head_dim}), one.of) == one.kernels));
  }
}

TEST_CASE("a segment's kernels also depend on the positions of its queries and keys", "[ops][attention_choice]") {
  struct Case {
    std::int64_t queries, keys, first_query, first_key, head_dim;
    AttentionTraits of;
    AttentionKernels kernels;
  };
  const std::vector<Case> cases{
      // The last queries of a sequence, as in its second slice.
      {512, 1024, 512, 0, 64, {DType::bf16}, {cudnn, exact, hopper}},
      {512, 1024, 512, 0, 256, {DType::bf16}, {cudnn, exact, hopper}},
      {512, 1024, 512, 0, 64, {DType::bf16, true, false}, {mma, mma, hopper}},
      {512, 1024, 512, 0, 64, {DType::bf16, false, true}, {mma, mma, mma}},
      {500, 1000, 500, 0, 64, {DType::bf16}, {cudnn, exact, exact}},
      {512, 1024, 512, 0, 64, {DType::f32}, {exact, exact, exact}},
      // Queries after all keys, as with another rank's keys.
      {512, 512, 512, 0, 128, {DType::bf16}, {cudnn, exact, hopper}},
      {512, 512, 1024, 512, 128, {DType::bf16, true, false}, {mma, mma, mma}},
      {512, 512, 1024, 4, 128, {DType::bf16, true, false}, {exact, exact, exact}},
      // Keys on both sides of a query's own.
      {512, 1024, 256, 0, 128, {DType::bf16}, {exact, exact, exact}},
      {512, 1024, 256, 0, 128, {DType::bf16, false, true}, {mma, mma, mma}},
  };
  for (const Case& one : cases) {
    INFO(one.queries << " queries from " << one.first_query << ", " << one.keys << " keys from " << one.first_key
                     << ", heads of " << one.head_dim << (one.of.documents ? ", documents" : "")
                     << (one.of.dropout ? ", dropout" : ""));
    const SegmentShape shape{.batch = 2,
                             .queries = one.queries,
                             .keys = one.keys,
                             .first_query = one.first_query,
                             .first_key = one.first_key,
                             .heads = 8,
                             .kv_heads = 2,
                             .head_dim = one.head_dim};
    CHECK((kernels_of(shape, one.of) == one.kernels));
  }
}

// The heads of latent attention.
SegmentShape latent_heads(std::int64_t sequence, std::int64_t head_dim, std::int64_t value_dim) {
  SegmentShape shape = whole_sequences(2, sequence, {8, 8, head_dim});
  shape.own_value_dim = value_dim;
  return shape;
}

TEST_CASE("keys of 192 with values of 128 have a backward of their own on Hopper GPUs", "[ops][attention_choice]") {
  const SegmentShape latent = latent_heads(1000, 192, 128);
  CHECK((kernels_of(latent, {}) == AttentionKernels{cudnn, exact, hopper}));
  CHECK((kernels_of(latent, {DType::f16}) == AttentionKernels{cudnn, exact, hopper}));
  CHECK((kernels_of(latent, {DType::bf16, true}) == AttentionKernels{exact, exact, hopper}));
  CHECK((kernels_of(latent, {DType::bf16, false, true}) == AttentionKernels{exact, exact, exact}));
  CHECK(cuda::padded_head_size(latent, forward_args(latent, {})) == 0);
  CHECK(cuda::padded_head_size(latent, backward_args(latent, {}), hopper_chip) == 0);
  CHECK(cuda::padded_head_size(latent, backward_args(latent, {}), older_chip) == 256);
}

TEST_CASE("other keys that are wider than their values are filled up on Hopper GPUs", "[ops][attention_choice]") {
  const SegmentShape narrow = latent_heads(1024, 96, 64), swapped = latent_heads(1024, 128, 192);
  CHECK((kernels_of(narrow, {}) == AttentionKernels{cudnn, exact, exact}));
  CHECK(cuda::padded_head_size(narrow, backward_args(narrow, {}), hopper_chip) == 96);
  CHECK(cuda::padded_head_size(swapped, backward_args(swapped, {}), hopper_chip) == 256);
}

TEST_CASE("an output or gradients of another type go to the kernel that takes all types", "[ops][attention_choice]") {
  const SegmentShape shape = whole_sequences(1, 1024, {4, 4, 128});
  AttentionArgs forward = forward_args(shape, {});
  forward.out.dtype = DType::f32;
  CHECK((cuda::attention_kernel(shape, forward) == exact));
  AttentionBackwardArgs sums = backward_args(shape, {});
  sums.dkv.dtype = DType::f32, sums.accumulate_dkv = Accumulate::yes;  // as in a sequence's first slice
  CHECK((cuda::attention_backward_kernel(shape, sums, hopper_chip) == hopper));
  CHECK((cuda::attention_backward_kernel(shape, sums, older_chip) == exact));
  sums.accumulate_dkv = Accumulate::no;
  CHECK((cuda::attention_backward_kernel(shape, sums, hopper_chip) == exact));
}

TEST_CASE("a window is left to cuDNN where it ends at the diagonal, and to our kernels elsewhere", "[ops][attention_choice]") {
  SegmentShape whole = whole_sequences(1, 1024, {4, 4, 128}), earlier = whole, odd = whole_sequences(1, 1000, {4, 4, 128});
  earlier.first_query = 1024;  // every query stands behind every key
  whole.window = earlier.window = odd.window = 256;
  CHECK((kernels_of(whole, {}) == AttentionKernels{cudnn, mma, hopper}));
  CHECK((kernels_of(whole, {DType::bf16, true}) == AttentionKernels{mma, mma, hopper}));
  CHECK((kernels_of(whole, {DType::f32}) == AttentionKernels{exact, exact, exact}));
  CHECK((kernels_of(odd, {}) == AttentionKernels{cudnn, mma, hopper}));
  CHECK((kernels_of(earlier, {}) == AttentionKernels{mma, mma, hopper}));
  whole.window = 1024;  // hides nothing
  CHECK((kernels_of(whole, {}) == kernels_of(whole_sequences(1, 1024, {4, 4, 128}), {})));
}

TEST_CASE("sinks are added to a window where cuDNN or Hopper kernels compute it, and are a pattern elsewhere",
          "[ops][attention_choice]") {
  SegmentShape shape = whole_sequences(1, 1024, {4, 4, 128});
  shape.window = 256, shape.sinks = 4;
  CHECK((kernels_of(shape, {}) == AttentionKernels{window_and_sinks, mma, window_and_sinks}));
  CHECK((kernels_of(shape, {DType::bf16, true}) == AttentionKernels{mma, mma, mma}));
  CHECK((kernels_of(shape, {DType::bf16, false, true}) == AttentionKernels{mma, mma, mma}));
  CHECK((kernels_of(shape, {DType::f16}) == AttentionKernels{exact, exact, exact}));
  CHECK((kernels_of(shape, {DType::f32}) == AttentionKernels{exact, exact, exact}));
  SegmentShape narrow = shape, slice = shape, apart = shape, longformer = shape, fixed = shape;
  narrow.head_dim = 80;
  CHECK((kernels_of(narrow, {}) == AttentionKernels{window_and_sinks, mma, mma}));
  slice.queries = 512, slice.first_query = 512;
  CHECK((kernels_of(slice, {}) == AttentionKernels{window_and_sinks, mma, window_and_sinks}));
  apart.first_query = 1024;  // every query stands behind every key
  CHECK((kernels_of(apart, {}) == AttentionKernels{mma, mma, window_and_sinks}));
  longformer.window = 32, longformer.sinks = longformer.block = 16;
  CHECK((kernels_of(longformer, {}) == AttentionKernels{mma, mma, mma}));
  fixed.sinks = 0, fixed.window = fixed.block = fixed.period = 64, fixed.stripe = 16;
  CHECK((kernels_of(fixed, {}) == AttentionKernels{mma, mma, mma}));
  CHECK((kernels_of(fixed, {DType::f16}) == AttentionKernels{exact, exact, exact}));
}

TEST_CASE("a pattern without keys of the segment leaves the choice to the window", "[ops][attention_choice]") {
  SegmentShape shape = whole_sequences(1, 1024, {4, 4, 128});
  shape.window = 1024, shape.sinks = 4;  // the window hides nothing
  CHECK_FALSE(cuda::needed_pattern(shape, false).is_sparse());
  CHECK_FALSE(cuda::needed_pattern(shape, true).is_sparse());
  shape.window = 256;
  CHECK(cuda::needed_pattern(shape, false).is_sparse());
  shape.first_query = shape.first_key = 64;  // the sinks are keys of another segment, or begin a document of this one
  CHECK_FALSE(cuda::needed_pattern(shape, false).is_sparse());
  CHECK(cuda::needed_pattern(shape, true).is_sparse());
  shape.window = 4096, shape.block = 4096;  // a block may end later than the sequence
  CHECK(cuda::needed_pattern(shape, true).is_sparse());
}

}  // namespace
}  // namespace pipetrain::testing
