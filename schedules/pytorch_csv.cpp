// The CSV of torch.distributed.pipelining's schedules, as plan_text.hpp describes it.
#include <algorithm>
#include <functional>
#include <set>
#include <sstream>

#include "schedules/braids.hpp"
#include "schedules/plan_reading.hpp"
#include "schedules/plan_text.hpp"

namespace pipetrain::schedules {

namespace {

// One cell's action: the virtual stage stands where ours has the chunk.
struct Cell {
  int virtual_stage;
  ActionKind kind;
  int microbatch;
  bool begins_pair = false;
};

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// Reads the file twice: the placement follows from who acts on what, and is known only at the end.
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
        size_.add_action();
        acted_on_.back().insert(cell.virtual_stage);
        virtual_stages = std::max(virtual_stages, cell.virtual_stage + 1);
        microbatches = std::max(microbatches, cell.microbatch + 1);
      });
    }
    if (virtual_stages == 0) reader_.fail("no actions found; expected rows such as 0F0,0F1,0B0", 0);
    Plan plan{"file", placement(virtual_stages, microbatches), microbatches, {}, ReadyRule::none};
    fill(plan);
    check_read_plan(plan, reader_, lines_);
    return plan;
  }

 private:
  void fill(Plan& plan) {
    reader_.rewind();
    while (reader_.next_line()) {
      auto& list = plan.stages.emplace_back();
      auto& braids = plan.braids.emplace_back();
      list.reserve(static_cast<std::size_t>(size_.actions(plan.stages.size() - 1)));
      bool pairs = false;
      for_each_cell([&](const Cell& cell) {
        list.push_back({cell.kind, static_cast<std::int16_t>(plan.placement.at(cell.virtual_stage).chunk), cell.microbatch});
        if (pairs && is_braid(*(list.end() - 2), list.back())) braids.push_back(static_cast<std::int32_t>(list.size()) - 2);
        pairs = cell.begins_pair;
      });
    }
    if (!has_braids(plan)) plan.braids.clear();
  }

  using Take = std::function<void(const Cell&)>;

  // Of the current line.
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
    for (std::string_view rest = field.substr(1, close - 1);;) {
      const auto semicolon = rest.find(';');
      take_action(trimmed(rest.substr(0, semicolon)), take, semicolon != std::string_view::npos);
      if (semicolon == std::string_view::npos) break;
      rest.remove_prefix(semicolon + 1);
    }
  }

  void take_action(std::string_view text, const Take& take, bool begins_pair = false) {
    const auto kind_at = text.find_first_not_of("0123456789");
    const auto stage = to_number(text.substr(0, kind_at));
    const auto rest = kind_at == std::string_view::npos ? std::string_view() : text.substr(kind_at);
    const auto digits_at = std::min(rest.find_first_of("0123456789"), rest.size());
    const auto kind = rest.substr(0, digits_at);
    for (const auto skipped : {"SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD"})
      if (stage && kind == skipped) return;
    const auto action = parse_action(rest);
    if (!stage || !action || !is_compute(action->kind) || *stage >= 1 << 20 || action->microbatch >= 1 << 30)
      reader_.fail("\"" + std::string(text) + "\" is not an action such as 0F0, 1B2, 0I1 or 0W1");
    take({*stage, action->kind, action->microbatch, begins_pair});
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
  std::vector<std::set<int>> acted_on_;  // by rank: virtual stages
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
