#include "schedules/plan_text.hpp"

#include <charconv>
#include <optional>

#include "schedules/validate.hpp"

namespace pipetrain::schedules {

namespace {

constexpr std::pair<ReadyRule, std::string_view> rule_names[] = {{ReadyRule::forward_first, "forward-first"},
                                                                 {ReadyRule::backward_first, "backward-first"},
                                                                 {ReadyRule::plan_order, "plan-order"}};

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::optional<int> to_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& name) : rest_(text), name_(name) {}

  // The next line with something on it, without its comment.
  std::optional<std::string_view> next_line() {
    while (!rest_.empty()) {
      ++line_;
      const auto end = rest_.find('\n');
      auto line = rest_.substr(0, end);
      rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
      line = trimmed(line.substr(0, line.find('#')));
      if (!line.empty()) return line;
    }
    return std::nullopt;
  }
  int line() const { return line_; }
  [[noreturn]] void fail(const std::string& what) const { fail(what, line_); }
  [[noreturn]] void fail(const std::string& what, int line) const {
    throw PlanFileError(name_ + (line > 0 ? ":" + std::to_string(line) : "") + ": " + what);
  }

 private:
  std::string_view rest_;
  const std::string& name_;
  int line_ = 0;
};

// A broken rule of a plan becomes an error at the line of the stage's list.
void check_read_plan(const Plan& plan, const Reader& reader, const std::vector<int>& lines) {
  try {
    validate(plan);
  } catch (const InvalidPlan& error) {
    reader.fail(error.fault(), error.stage() < 0 ? 0 : lines[static_cast<std::size_t>(error.stage())]);
  }
}

class PlanParser {
 public:
  PlanParser(std::string_view text, const std::string& name) : reader_(text, name) {}

  Plan parse() {
    while (const auto line = reader_.next_line()) {
      const auto colon = line->find(':');
      if (colon == std::string_view::npos) reader_.fail("\"" + std::string(*line) + "\" is not \"key: value\"");
      take(trimmed(line->substr(0, colon)), trimmed(line->substr(colon + 1)));
    }
    if (plan_.stages.empty()) reader_.fail("the plan has no stages; give one line \"stage 0: F0 B0\" for each", 0);
    if (microbatches_ == 0) reader_.fail("the plan does not say \"microbatches: N\"", 0);
    plan_.microbatches = microbatches_;
    const int stages = static_cast<int>(plan_.stages.size());
    if (is_v_shape_ && chunks_given_ && chunks_ != 2)
      reader_.fail("a v-shape placement has 2 chunks, not " + std::to_string(chunks_), 0);
    plan_.placement = is_v_shape_ ? Placement::v_shape(stages) : Placement::looping(stages, chunks_);
    check_read_plan(plan_, reader_, lines_);
    return std::move(plan_);
  }

 private:
  void take(std::string_view key, std::string_view value) {
    if (key == "schedule") {
      plan_.schedule = value;
    } else if (key == "placement") {
      if (value != "looping" && value != "v-shape")
        reader_.fail("placement \"" + std::string(value) + "\" is neither looping nor v-shape");
      is_v_shape_ = value == "v-shape";
    } else if (key == "chunks") {
      chunks_ = positive(key, value, 32767), chunks_given_ = true;
    } else if (key == "microbatches") {
      microbatches_ = positive(key, value, 1 << 30);
    } else if (key == "ready") {
      take_rule(value);
    } else if (key.starts_with("stage ")) {
      take_stage(trimmed(key.substr(6)), value);
    } else {
      reader_.fail("unknown key \"" + std::string(key) +
                   "\"; known are schedule, placement, chunks, microbatches, ready, stage N");
    }
  }

  int positive(std::string_view key, std::string_view value, int limit) {
    const auto number = to_number(value);
    if (!number || *number < 1 || *number > limit)
      reader_.fail(std::string(key) + " must be a number from 1 to " + std::to_string(limit) + ", not \"" + std::string(value) +
                   "\"");
    return *number;
  }

  void take_rule(std::string_view value) {
    for (const auto& [rule, name] : rule_names)
      if (name == value) {
        plan_.ready_rule = rule;
        return;
      }
    reader_.fail("ready rule \"" + std::string(value) + "\" is none of forward-first, backward-first, plan-order");
  }

  void take_stage(std::string_view number, std::string_view value) {
    if (to_number(number) != static_cast<int>(plan_.stages.size()))
      reader_.fail("stage " + std::to_string(plan_.stages.size()) + " is expected here, not \"" + std::string(number) + "\"");
    lines_.push_back(reader_.line());
    auto& list = plan_.stages.emplace_back();
    while (!value.empty()) {
      const auto end = value.find_first_of(" \t");
      const auto word = value.substr(0, end);
      const auto action = parse_action(word);
      if (!action) reader_.fail("\"" + std::string(word) + "\" is not an action such as F0, 1B3 or N");
      list.push_back(*action);
      value = end == std::string_view::npos ? std::string_view() : trimmed(value.substr(end));
    }
  }

  Reader reader_;
  Plan plan_;
  bool is_v_shape_ = false, chunks_given_ = false;
  int chunks_ = 1, microbatches_ = 0;
  std::vector<int> lines_;
};

// One cell's action: the virtual stage stands where ours has the chunk.
struct Cell {
  int virtual_stage;
  ActionKind kind;
  int microbatch;
};

class CsvParser {
 public:
  CsvParser(std::string_view text, const std::string& name) : reader_(text, name) {}

  Plan parse() {
    while (auto line = reader_.next_line()) {
      lines_.push_back(reader_.line());
      rows_.emplace_back();
      for (std::string_view rest = *line;;) {
        const auto comma = rest.find(',');
        take_cell(trimmed(rest.substr(0, comma)));
        if (comma == std::string_view::npos) break;
        rest.remove_prefix(comma + 1);
      }
    }
    if (virtual_stages_ == 0) reader_.fail("no actions found; expected rows such as 0F0,0F1,0B0", 0);
    Plan plan{"file", placement(), microbatches_, {}, ReadyRule::none};
    for (std::size_t stage = 0; stage < rows_.size(); ++stage) {
      auto& list = plan.stages.emplace_back();
      for (const Cell& cell : rows_[stage])
        list.push_back({cell.kind, static_cast<std::int16_t>(plan.placement.at(cell.virtual_stage).chunk), cell.microbatch});
    }
    check_read_plan(plan, reader_, lines_);
    return plan;
  }

 private:
  void take_cell(std::string_view cell) {
    if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"') cell = trimmed(cell.substr(1, cell.size() - 2));
    if (cell.empty()) return;
    if (cell.front() != '(') return take_action(cell);
    const auto close = cell.find(')');
    if (close == std::string_view::npos || cell.substr(close + 1) != "OVERLAP_F_B")
      reader_.fail("\"" + std::string(cell) + "\" is not a pair such as (0F4;7B1)OVERLAP_F_B");
    for (std::string_view rest = cell.substr(1, close - 1);;) {
      const auto semicolon = rest.find(';');
      take_action(trimmed(rest.substr(0, semicolon)));
      if (semicolon == std::string_view::npos) break;
      rest.remove_prefix(semicolon + 1);
    }
  }

  void take_action(std::string_view text) {
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
    rows_.back().push_back({*stage, action->kind, action->microbatch});
    virtual_stages_ = std::max(virtual_stages_, *stage + 1);
    microbatches_ = std::max(microbatches_, action->microbatch + 1);
  }

  // The placement follows from who acts on what.
  Placement placement() const {
    const int stages = static_cast<int>(rows_.size());
    if (virtual_stages_ % stages != 0)
      reader_.fail(
          std::to_string(virtual_stages_) + " virtual stages cannot be spread over " + std::to_string(stages) + " ranks", 0);
    if (virtual_stages_ / stages > 32767)
      reader_.fail(std::to_string(virtual_stages_ / stages) + " chunks a rank are too many", 0);
    const auto looping = Placement::looping(stages, virtual_stages_ / stages);
    if (fits(looping)) return looping;
    if (virtual_stages_ == 2 * stages && fits(Placement::v_shape(stages))) return Placement::v_shape(stages);
    for (std::size_t stage = 0; stage < rows_.size(); ++stage)
      for (const Cell& cell : rows_[stage])
        if (looping.at(cell.virtual_stage).stage != static_cast<int>(stage))
          reader_.fail("virtual stage " + std::to_string(cell.virtual_stage) + " acts on rank " + std::to_string(stage) +
                           "; ranks must be placed looping or V-shaped",
                       lines_[stage]);
    return looping;
  }
  bool fits(const Placement& placement) const {
    for (std::size_t stage = 0; stage < rows_.size(); ++stage)
      for (const Cell& cell : rows_[stage])
        if (placement.at(cell.virtual_stage).stage != static_cast<int>(stage)) return false;
    return true;
  }

  Reader reader_;
  std::vector<std::vector<Cell>> rows_;
  std::vector<int> lines_;
  int virtual_stages_ = 0, microbatches_ = 0;
};

}  // namespace

std::string to_text(const Plan& plan) {
  const int stages = plan.placement.stages(), chunks = plan.placement.chunks();
  const bool is_v_shape = plan.placement != Placement::looping(stages, chunks);
  std::string text = "schedule: " + plan.schedule + "\nplacement: " + (is_v_shape ? "v-shape" : "looping") +
                     "\nchunks: " + std::to_string(chunks) + "\nmicrobatches: " + std::to_string(plan.microbatches) + "\n";
  for (const auto& [rule, name] : rule_names)
    if (plan.ready_rule == rule) text += "ready: " + std::string(name) + "\n";
  for (int stage = 0; stage < stages; ++stage) {
    text += "stage " + std::to_string(stage) + ":";
    for (const Action& action : plan.stages[static_cast<std::size_t>(stage)]) text += " " + to_string(action, chunks);
    text += "\n";
  }
  return text;
}

Plan parse_plan(std::string_view text, const std::string& name) { return PlanParser(text, name).parse(); }

std::string to_pytorch_csv(const Plan& plan) {
  std::string text;
  for (int stage = 0; stage < plan.placement.stages(); ++stage) {
    bool is_first = true;
    for (const Action& action : plan.stages[static_cast<std::size_t>(stage)]) {
      if (!is_compute(action.kind)) continue;
      text += (is_first ? "" : ",") + std::to_string(plan.placement.virtual_stage(stage, action.chunk)) + letter(action.kind) +
              std::to_string(action.microbatch);
      is_first = false;
    }
    text += "\n";
  }
  return text;
}

Plan parse_pytorch_csv(std::string_view text, const std::string& name) { return CsvParser(text, name).parse(); }

}  // namespace pipetrain::schedules
