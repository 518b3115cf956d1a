#include "schedules/plan/transfer_cells.hpp"

#include <algorithm>
#include <string>

#include "schedules/plan/invalid_plan.hpp"

namespace pipetrain::schedules {

namespace {

// Facts about one virtual stage, microbatch and direction.
enum Fact : std::uint8_t { has_send = 1, has_receive = 2, computed = 4, sent = 8, received = 16 };

std::string text(const TransferCell& cell) {
  return std::to_string(cell.virtual_stage) + (cell.sends ? "SEND_" : "RECV_") + (cell.of_gradient ? "B" : "F") +
         std::to_string(cell.microbatch);
}

// Returns the cell at the other end; its virtual stage may not exist in the plan.
TransferCell partner_of(const TransferCell& cell) {
  const int step = cell.sends == cell.of_gradient ? -1 : 1;
  return {cell.virtual_stage + step, !cell.sends, cell.of_gradient, cell.microbatch};
}

class TransferCheck {
 public:
  TransferCheck(const Plan& plan, const std::vector<std::vector<TransferCell>>& cells)
      : plan_(plan), cells_(cells), rows_(cells.size()) {
    for (auto& facts : facts_)
      facts.resize(static_cast<std::size_t>(plan.placement.virtual_stages()) * static_cast<std::size_t>(plan.microbatches));
  }

  void run() {
    for_each([this](const TransferCell& cell, int rank) { note(cell, rank); });
    for_each([this](const TransferCell& cell, int rank) {
      const TransferCell partner = partner_of(cell);
      if ((fact(partner) & (partner.sends ? has_send : has_receive)) == 0)
        fail(rank, text(cell) + " has no partner: no cell is " + text(partner));
    });
    for (int rank = static_cast<int>(rows_.size()) - 1; rank >= 0; --rank) ready_.push_back(rank);
    while (!ready_.empty()) {
      const int rank = ready_.back();
      ready_.pop_back();
      while (go_on(rank)) {
      }
    }
    for (int rank = 0; rank < static_cast<int>(rows_.size()); ++rank)
      if (rows_[static_cast<std::size_t>(rank)].action < list_of(rank).size()) fail_deadlock(rank);
  }

 private:
  struct Row {
    std::size_t action = 0, cell = 0;  // the next ones
  };

  template <class Work>
  void for_each(const Work& work) const {
    for (std::size_t rank = 0; rank < cells_.size(); ++rank)
      for (const TransferCell& cell : cells_[rank]) work(cell, static_cast<int>(rank));
  }

  [[noreturn]] static void fail(int rank, const std::string& why) {
    throw InvalidPlan("rank " + std::to_string(rank) + ": " + why, rank, "");
  }

  const std::vector<Action>& list_of(int rank) const { return plan_.stages[static_cast<std::size_t>(rank)]; }
  int rank_of(int virtual_stage) const { return plan_.placement.at(virtual_stage).stage; }
  bool is_stage(int virtual_stage) const { return virtual_stage >= 0 && virtual_stage < plan_.placement.virtual_stages(); }

  std::uint8_t& fact(const TransferCell& cell) {
    return facts_[cell.of_gradient ? 1 : 0]
                 [static_cast<std::size_t>(cell.virtual_stage) * static_cast<std::size_t>(plan_.microbatches) +
                  static_cast<std::size_t>(cell.microbatch)];
  }

  std::string compute_text(const TransferCell& cell) const {
    if (!cell.of_gradient) return std::to_string(cell.virtual_stage) + "F" + std::to_string(cell.microbatch);
    const auto chunk = static_cast<std::int16_t>(plan_.placement.at(cell.virtual_stage).chunk);
    const auto& list = list_of(rank_of(cell.virtual_stage));
    const bool halves =
        std::find(list.begin(), list.end(), Action{ActionKind::input_grad, chunk, cell.microbatch}) != list.end();
    return std::to_string(cell.virtual_stage) + (halves ? "I" : "B") + std::to_string(cell.microbatch);
  }

  void note(const TransferCell& cell, int rank) {
    if (!is_stage(cell.virtual_stage) || rank_of(cell.virtual_stage) != rank)
      fail(rank, text(cell) + ": virtual stage " + std::to_string(cell.virtual_stage) + " does not act on this rank");
    if (cell.microbatch >= plan_.microbatches)
      fail(rank, text(cell) + ": the plan has " + std::to_string(plan_.microbatches) + " microbatches, counted from 0");
    const TransferCell partner = partner_of(cell);
    if (!is_stage(partner.virtual_stage))
      fail(rank, text(cell) + ": no virtual stage " + (cell.sends ? "takes it" : "gives it") + "; this is the " +
                     (partner.virtual_stage < 0 ? "first" : "last") + " one of the model");
    if (rank_of(partner.virtual_stage) == rank)
      fail(rank, text(cell) + ": virtual stage " + std::to_string(partner.virtual_stage) +
                     " acts on the same rank, and nothing is sent; leave it out");
    std::uint8_t& known = fact(cell);
    const std::uint8_t mark = cell.sends ? has_send : has_receive;
    if ((known & mark) != 0) fail(rank, text(cell) + " appears twice; keep one of them");
    known |= mark;
  }

  // Runs the next entry of the row. Returns false where it waits, or at the end of the row.
  bool go_on(int rank) {
    Row& row = rows_[static_cast<std::size_t>(rank)];
    const auto& cells = cells_[static_cast<std::size_t>(rank)];
    const auto& list = list_of(rank);
    if (row.cell < cells.size() && static_cast<std::size_t>(cells[row.cell].place) <= row.action) {
      transfer(cells[row.cell++], rank);
      return true;
    }
    if (row.action == list.size() || !compute(list[row.action], rank)) return false;
    ++row.action;
    return true;
  }

  void transfer(const TransferCell& cell, int rank) {
    std::uint8_t& known = fact(cell);
    if (!cell.sends) {
      if ((known & computed) != 0)
        fail(rank, text(cell) + " comes after " + compute_text(cell) + ", which uses what it receives");
      known |= received;
      return;
    }
    if ((known & computed) == 0) fail(rank, text(cell) + " comes before " + compute_text(cell) + ", whose result it sends");
    known |= sent;
    ready_.push_back(rank_of(partner_of(cell).virtual_stage));
  }

  // Returns false where the input has not been sent yet.
  bool compute(const Action& action, int rank) {
    if (action.kind != ActionKind::forward && !gives_input_grad(action.kind)) return true;
    const TransferCell input{plan_.placement.virtual_stage(rank, action.chunk), false, action.kind != ActionKind::forward,
                             action.microbatch};
    const TransferCell source = partner_of(input);
    std::uint8_t& known = fact(input);
    if (is_stage(source.virtual_stage) && rank_of(source.virtual_stage) != rank) {
      if ((known & has_receive) == 0)
        fail(rank, compute_text(input) + " uses what " + compute_text(source) + " gives, and no cell is " + text(input) +
                       "; a plan that has SEND and RECV has them wherever ranks change");
      if ((known & received) == 0)
        fail(rank, text(input) + " comes after " + compute_text(input) + ", which uses what it receives");
      if ((fact(source) & sent) == 0) return false;
    }
    known |= computed;
    return true;
  }

  [[noreturn]] void fail_deadlock(int rank) {
    const Action& action = list_of(rank)[rows_[static_cast<std::size_t>(rank)].action];
    const TransferCell input{plan_.placement.virtual_stage(rank, action.chunk), false, action.kind != ActionKind::forward,
                             action.microbatch};
    fail(rank,
         "the plan deadlocks: " + compute_text(input) + " waits for " + text(partner_of(input)) +
             ", which comes after an action that waits for this rank; put sends after the action that computes their data");
  }

  const Plan& plan_;
  const std::vector<std::vector<TransferCell>>& cells_;
  std::vector<Row> rows_;
  std::vector<int> ready_;              // ranks that may continue; one may occur twice
  std::vector<std::uint8_t> facts_[2];  // of activations and of gradients: by virtual stage and microbatch
};

}  // namespace

void check_transfers(const Plan& plan, const std::vector<std::vector<TransferCell>>& cells) {
  if (std::all_of(cells.begin(), cells.end(), [](const auto& row) { return row.empty(); })) return;
  TransferCheck(plan, cells).run();
}

}  // namespace pipetrain::schedules
