// What several ranks hold of the same elements, reduced in rank order on the CPU: the one order, whoever adds, so that sums
// have the same bits over every transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.hpp"
#include "core/process_group.hpp"

namespace pipetrain {

struct CpuRankSum {
  std::span<const std::byte* const> sources;  // `count` elements of every rank, in rank order; at least one
  std::span<std::byte* const> targets;        // each gets the result; may be sources too, from the same element on
  std::int64_t count = 0;
  DType dtype = DType::f32;  // f32, f64, or bf16 and f16, which add up in fp32 and are rounded once
  Reduction reduction = Reduction::sum;
};

// Allocates nothing.
void reduce_in_rank_order(const CpuRankSum& sum);

}  // namespace pipetrain
