// Reduces the same elements of several ranks in rank order on the CPU: the order is always the same, so sums have the
// same bits over every transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.hpp"
#include "core/process_group.hpp"

namespace pipetrain {

struct CpuRankSum {
  std::span<const std::byte* const> sources;  // `count` elements of every rank, in rank order; at least one
  std::span<std::byte* const> targets;        // each gets the result; may also be sources, from the same element on
  std::int64_t count = 0;
  DType dtype = DType::f32;  // f32, f64, or bf16 and f16, which are added in fp32 and rounded once
  Reduction reduction = Reduction::sum;
};

// Allocates nothing.
void reduce_in_rank_order(const CpuRankSum& sum);

}  // namespace pipetrain
