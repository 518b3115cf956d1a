// Reads and writes the CSV of torch.distributed.pipelining's schedules, which plan_text.hpp describes.
#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <sstream>

#include "schedules/plan/braids.hpp"
#include "schedules/plan/plan_reading.hpp"
#include "schedules/plan/plan_text.hpp"
#include "schedules/plan/transfer_cells.hpp"

namespace pipetrain::schedules {

namespace {

constexpr std::string_view digits = "0123456789";

// One cell's action, with the virtual stage in place of the chunk.
struct Cell {
  enum class What { compute, transfer, sharding } what = What::compute;
  int virtual_stage = 0;
  int microbatch = 0;
  ActionKind kind = ActionKind::forward;    // of compute
  bool sends = false, of_gradient = false;  // of a transfer
  bool begins_pair = false;
};

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// Reads the file twice: the placement follows from the actions of all ranks and is known only at the end.
class CsvParser {
 public:
  CsvParser(std::istream& text, const std::string& name) : reader_(text, name), size_(reader_) {}

  Plan parse() {
    int virtual_stages = 0, microbatches = 0;
    while (reader_.next_line()) {
      lines_.push_back(reader_.line());
      acted_on_.emplace_back();
      size_.add_stage();
      for_each_cell([&](const Cell& cell) {
        if (cell.what == Cell::What::transfer) size_.add_transfer();
        if (cell.what != Cell::What::compute) return;
        size_.add_action();
        acted_on_.back().insert(cell.virtual_stage);
        virtual_stages = std::max(virtual_stages, cell.virtual_stage + 1);
        microbatches = std::max(microbatches, cell.microbatch + 1);
      });
    }
    if (virtual_stages == 0) reader_.fail("no actions found; expected rows such as 0F0,0F1,0B0", 0);
    Plan plan{"file", placement(virtual_stages, microbatches), microbatches, {}, ReadyRule::none};
    const std::vector<std::vector<TransferCell>> transfers = fill(plan);
    check_read_plan(plan, reader_, lines_, [&] { check_transfers(plan, transfers); });
    return plan;
  }

 private:
  // Returns the transfers of each rank, which are not part of the plan.
  std::vector<std::vector<TransferCell>> fill(Plan& plan) {
    std::vector<std::vector<TransferCell>> transfers;
    reader_.rewind();
    while (reader_.next_line()) {
      auto& list = plan.stages.emplace_back();
      auto& braids = plan.braids.emplace_back();
      list.reserve(static_cast<std::size_t>(size_.actions(plan.stages.size() - 1)));
      transfers.emplace_back();
      for_each_cell([&](const Cell& cell) {
        const auto place = static_cast<std::int32_t>(list.size());
        if (cell.what == Cell::What::transfer)
          transfers.back().push_back({cell.virtual_stage, cell.sends, cell.of_gradient, cell.microbatch, place});
        if (cell.what != Cell::What::compute) return;
        if (cell.begins_pair) braids.push_back(place);
        list.push_back({cell.kind, static_cast<std::int16_t>(plan.placement.at(cell.virtual_stage).chunk), cell.microbatch});
      });
    }
    if (!has_braids(plan)) plan.braids.clear();
    return transfers;
  }

  using Take = std::function<void(const Cell&)>;

  // Visits the cells of the current line.
  void for_each_cell(const Take& take) {
    while (const auto field = reader_.next_field(",")) take_field(*field, take);
  }

  void take_field(std::string_view field, const Take& take) {
    if (field.size() >= 2 && field.front() == '"' && field.back() == '"') field = trimmed(field.substr(1, field.size() - 2));
    if (field.empty()) return;
    if (field.front() != '(') return take_action(field, take);
    const auto close = field.find(')');
    if (close == std::string_view::npos || field.substr(close + 1) != "OVERLAP_F_B")
      reader_.fail("\"" + std::string(field) + "\" is not a pair such as (0F4;7B1)OVERLAP_F_B");
    const std::string_view pair = field.substr(1, close - 1);
    const auto semicolon = pair.find(';');
    if (semicolon == std::string_view::npos || pair.find(';', semicolon + 1) != std::string_view::npos)
      reader_.fail("\"" + std::string(field) + "\" is not a pair: that has two actions, such as (0F4;7B1)OVERLAP_F_B");
    Cell first = compute_cell(trimmed(pair.substr(0, semicolon)));
    first.begins_pair = true;
    take(first);
    take(compute_cell(trimmed(pair.substr(semicolon + 1))));
  }

  void take_action(std::string_view text, const Take& take) {
    const auto communication = communication_cell(text);
    take(communication ? *communication : compute_cell(text));
  }

  Cell compute_cell(std::string_view text) const {
    const auto kind_at = text.find_first_not_of(digits);
    const auto stage = to_number(text.substr(0, kind_at));
    const auto action = parse_action(kind_at == std::string_view::npos ? std::string_view() : text.substr(kind_at));
    if (!stage || !action || !is_compute(action->kind) || *stage >= 1 << 20 || action->microbatch >= 1 << 30)
      reader_.fail("\"" + std::string(text) + "\" is not an action such as 0F0, 1B2, 0I1 or 0W1");
    return {Cell::What::compute, *stage, action->microbatch, action->kind};
  }

  // Returns no value where the text names none of PyTorch's communication actions.
  std::optional<Cell> communication_cell(std::string_view text) const {
    const auto kind_at = std::min(text.find_first_not_of(digits), text.size());
    const auto number_at = std::min(text.find_first_of(digits, kind_at), text.size());
    const auto stage = to_number(text.substr(0, kind_at)), microbatch = to_number(text.substr(number_at));
    const std::string_view kind = text.substr(kind_at, number_at - kind_at);
    const bool transfer = kind == "SEND_F" || kind == "RECV_F" || kind == "SEND_B" || kind == "RECV_B";
    if (!transfer && kind != "UNSHARD" && kind != "RESHARD" && kind != "REDUCE_GRAD") return std::nullopt;
    if (!stage || (transfer || number_at < text.size() ? !microbatch : false))
      reader_.fail("\"" + std::string(text) + "\" is not a communication such as 0SEND_F0, 1RECV_F0 or 0UNSHARD");
    Cell cell{transfer ? Cell::What::transfer : Cell::What::sharding, *stage, microbatch.value_or(0)};
    cell.sends = kind.starts_with("SEND");
    cell.of_gradient = kind.ends_with("B");
    return cell;
  }

  Placement placement(int virtual_stages, int microbatches) const {
    const int stages = static_cast<int>(acted_on_.size()), chunks = virtual_stages / stages;
    if (virtual_stages % stages != 0)
      reader_.fail(
          std::to_string(virtual_stages) + " virtual stages cannot be spread over " + std::to_string(stages) + " ranks", 0);
    if (chunks > 32767) reader_.fail(std::to_string(chunks) + " chunks a rank are too many", 0);
    size_.check(chunks, microbatches);
    const auto looping = Placement::looping(stages, chunks);
    if (fits(looping)) return looping;
    if (chunks == 2 && fits(Placement::v_shape(stages))) return Placement::v_shape(stages);
    for (std::size_t stage = 0; stage < acted_on_.size(); ++stage)
      for (const int v : acted_on_[stage])
        if (looping.at(v).stage != static_cast<int>(stage))
          reader_.fail("virtual stage " + std::to_string(v) + " acts on rank " + std::to_string(stage) +
                           "; ranks must be placed looping or V-shaped",
                       lines_[stage]);
    return looping;
  }

  bool fits(const Placement& placement) const {
    for (std::size_t stage = 0; stage < acted_on_.size(); ++stage)
      for (const int v : acted_on_[stage])
        if (placement.at(v).stage != static_cast<int>(stage)) return false;
    return true;
  }

  FieldReader reader_;
  PlanSize size_;
  std::vector<std::set<int>> acted_on_;  // by rank: its virtual stages
  std::vector<int> lines_;
};

}  // namespace

std::string to_pytorch_csv(const Plan& plan) {
  if (plan.slices > 1) throw std::invalid_argument("PyTorch's format has no slices, and the plan has; write it as .txt");
  if (!plan.custom.empty())
    throw std::invalid_argument("PyTorch's format has no custom actions, and the plan has; write it as .txt");
  std::string text;
  for (int stage = 0; stage < plan.placement.stages(); ++stage) {
    const auto& list = plan.stages[static_cast<std::size_t>(stage)];
    const std::vector<bool> braids = braid_starts(plan, stage);
    const char* separator = "";
    bool in_pair = false;
    for (std::size_t place = 0; place < list.size(); ++place) {
      const Action& action = list[place];
      if (!is_compute(action.kind)) continue;
      const bool begins_pair = !braids.empty() && braids[place] && list[place + 1].kind == ActionKind::backward;
      text += std::string(separator) + (begins_pair ? "(" : "") +
              std::to_string(plan.placement.virtual_stage(stage, action.chunk)) + letter(action.kind) +
              std::to_string(action.microbatch) + (in_pair ? ")OVERLAP_F_B" : "");
      separator = begins_pair ? ";" : ",";
      in_pair = begins_pair;
    }
    text += "\n";
  }
  return text;
}

Plan parse_pytorch_csv(std::istream& text, const std::string& name) { return CsvParser(text, name).parse(); }

Plan parse_pytorch_csv(std::string_view text, const std::string& name) {
  std::istringstream stream{std::string(text)};
  return parse_pytorch_csv(stream, name);
}

}  // namespace pipetrain::schedules
