// Plans as text: our own format, and the CSV of PyTorch's torch.distributed.pipelining schedules.
//
// Our format has one key a line, then one list a stage; '#' begins a comment:
//   schedule: 1f1b
//   placement: looping        (or v-shape)
//   chunks: 1
//   microbatches: 2
//   ready: backward-first     (forward-first, plan-order; absent: planned order only)
//   slices: 1                 (absent: 1; above 1 it precedes all actions, which name theirs: F0.0 F0.1 B0.1 B0.0)
//   stage 0: F0 F1 B0 B1 N O
//   stage 1: F0 B0 F1 B1 N O
//
// A braid (braids.hpp) is written as its two actions with a plus: F3+B1.
//
// The lists contain custom actions by number. They are described before the lists, from X0 on: a name; the actions that
// each comes after, if any, with their stages; the resources that it uses.
//   custom X0: prefetch
//   custom X1: send-stats after 0:X0 1:B0 uses nic
//
// PyTorch's format has one row a rank, with cells such as 0F0, 1B2, 0I1, 0W1, where the first number is the virtual
// stage, or a pair (0F4;7B1)OVERLAP_F_B, which becomes a braid. Its transfers (0SEND_F0, 1RECV_F0, 1SEND_B0, 0RECV_B0)
// are checked (transfer_cells.hpp) and then dropped, as are empty cells, UNSHARD, RESHARD and REDUCE_GRAD: they are not
// decisions of a plan here.
#pragma once

#include <istream>
#include <string>
#include <string_view>

#include "schedules/plan/plan.hpp"
#include "schedules/plan/plan_file_error.hpp"

namespace pipetrain::schedules {

std::string to_text(const Plan& plan);
// Parses a plan as to_text() writes it. name: of the file, for messages. The returned plan has passed check_plan(). The text is
// read twice, part by part, and a plan beyond most_plan_work is refused before it is kept. Throws PlanFileError.
Plan parse_plan(std::istream& text, const std::string& name);
Plan parse_plan(std::string_view text, const std::string& name);

// Writes the plan's compute. The format has neither the end of a step nor other braids than those of F and B, whose actions are
// then written one after the other. Throws std::invalid_argument for slices and custom actions, which it does not have either.
std::string to_pytorch_csv(const Plan& plan);
// Parses PyTorch's schedule CSV; else as parse_plan().
Plan parse_pytorch_csv(std::istream& text, const std::string& name);
Plan parse_pytorch_csv(std::string_view text, const std::string& name);

}  // namespace pipetrain::schedules
