// Plans as text: our own format, and the CSV of PyTorch's torch.distributed.pipelining schedules.
//
// Ours, one key a line, then one list a stage; '#' begins a comment:
//   schedule: 1f1b
//   placement: looping        (or v-shape)
//   chunks: 1
//   microbatches: 2
//   ready: backward-first     (forward-first, plan-order; absent: planned order only)
//   slices: 1                 (absent: 1; more stand before all actions, which then name theirs: F0.0 F0.1 B0.1 B0.0)
//   stage 0: F0 F1 B0 B1 N O
//   stage 1: F0 B0 F1 B1 N O
//
// A braid (braids.hpp) is its two actions with a plus: F3+B1.
//
// Custom actions stand in the lists by their numbers. What they are goes before, from X0 on: a name; if there is any, what it
// is after on which stages; the resources it uses.
//   custom X0: prefetch
//   custom X1: send-stats after 0:X0 1:B0 uses nic
//
// PyTorch's: one row a rank, cells such as 0F0, 1B2, 0I1, 0W1 with the number of the virtual stage in front, or a pair
// (0F4;7B1)OVERLAP_F_B, which is a braid here. Its transfers (0SEND_F0, 1RECV_F0, 1SEND_B0, 0RECV_B0) are checked
// (transfer_cells.hpp), and then left out like empty cells, UNSHARD, RESHARD and REDUCE_GRAD: they are not choices of a plan
// here.
#pragma once

#include <istream>
#include <string>
#include <string_view>

#include "schedules/plan/plan.hpp"
#include "schedules/plan/plan_file_error.hpp"

namespace pipetrain::schedules {

std::string to_text(const Plan& plan);
// Round-trips to_text(). `name` is the file's, for messages. The plan has passed check_plan(). The text is read twice, piece by
// piece, and a plan beyond most_plan_work refused before it is kept. Throws PlanFileError.
Plan parse_plan(std::istream& text, const std::string& name);
Plan parse_plan(std::string_view text, const std::string& name);

// The compute of the plan; what ends the step has no place in the format, nor have other braids than of F and B, whose actions
// then stand side by side. Throws std::invalid_argument for slices and
// for custom actions, which have none either.
std::string to_pytorch_csv(const Plan& plan);
// As parse_plan().
Plan parse_pytorch_csv(std::istream& text, const std::string& name);
Plan parse_pytorch_csv(std::string_view text, const std::string& name);

}  // namespace pipetrain::schedules
