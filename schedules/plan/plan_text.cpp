#include "schedules/plan/plan_text.hpp"

#include <set>
#include <sstream>

#include "schedules/plan/braids.hpp"
#include "schedules/plan/plan_reading.hpp"

namespace pipetrain::schedules {

namespace {

constexpr std::pair<ReadyRule, std::string_view> rule_names[] = {{ReadyRule::forward_first, "forward-first"},
                                                                 {ReadyRule::backward_first, "backward-first"},
                                                                 {ReadyRule::plan_order, "plan-order"}};
constexpr std::string_view blanks = " \t";

// Reads the file twice: first to count, then to keep, so that lists take no more memory than they need.
class PlanParser {
 public:
  PlanParser(std::istream& text, const std::string& name) : reader_(text, name), size_(reader_) {}

  Plan parse() {
    while (reader_.next_line())
      if (key().starts_with("stage ")) {
        size_.add_stage();
        while (const auto word = reader_.next_field(blanks)) {
          size_.add_action();
          if (word->find('+') != std::string_view::npos) size_.add_action();
        }
      }
    reader_.rewind();
    while (reader_.next_line()) take(key());
    if (plan_.stages.empty()) reader_.fail("the plan has no stages; give one line \"stage 0: F0 B0\" for each", 0);
    if (microbatches_ == 0) reader_.fail("the plan does not say \"microbatches: N\"", 0);
    if (plan_.slices > 1 && microbatches_ > most_plan_work / plan_.slices)
      reader_.fail("microbatches x slices are more than " + std::to_string(most_plan_work) + ", the most of a plan", 0);
    plan_.microbatches = microbatches_ * plan_.slices;
    const int stages = static_cast<int>(plan_.stages.size());
    if (is_v_shape_ && keys_.contains("chunks") && chunks_ != 2)
      reader_.fail("a v-shape placement has 2 chunks, not " + std::to_string(chunks_), 0);
    size_.check(is_v_shape_ ? 2 : chunks_, plan_.microbatches);
    plan_.placement = is_v_shape_ ? Placement::v_shape(stages) : Placement::looping(stages, chunks_);
    place_customs();
    if (has_braids(plan_)) plan_.braids.resize(plan_.stages.size());
    check_read_plan(plan_, reader_, lines_);
    return std::move(plan_);
  }

 private:
  std::string key() {
    const std::string key(reader_.next_field(":").value_or(""));
    if (!reader_.was_separated()) reader_.fail("\"" + key + "\" is not \"key: value\"");
    return key;
  }

  void take(const std::string& key) {
    if (key.starts_with("stage ")) return take_stage(key.substr(6));
    if (key.starts_with("custom ")) return take_custom(key.substr(7));
    if (!keys_.insert(key).second) reader_.fail(key + " appears twice; keep one of them");
    const std::string value(reader_.next_field("").value_or(""));
    if (key == "schedule") {
      plan_.schedule = value;
    } else if (key == "placement") {
      if (value != "looping" && value != "v-shape") reader_.fail("placement \"" + value + "\" is neither looping nor v-shape");
      is_v_shape_ = value == "v-shape";
    } else if (key == "chunks") {
      chunks_ = positive(key, value, 32767);
    } else if (key == "microbatches") {
      microbatches_ = positive(key, value, 1 << 30);
    } else if (key == "slices") {
      if (!plan_.stages.empty() || !plan_.custom.empty()) reader_.fail("slices come after actions; put the line before them");
      plan_.slices = positive(key, value, 32767);
    } else if (key == "ready") {
      take_rule(value);
    } else {
      reader_.fail("unknown key \"" + key +
                   "\"; known are schedule, placement, chunks, microbatches, slices, ready, custom XN, stage N");
    }
  }

  int positive(const std::string& key, const std::string& value, int limit) {
    const auto number = to_number(value);
    if (!number || *number < 1 || *number > limit)
      reader_.fail(key + " must be a number from 1 to " + std::to_string(limit) + ", not \"" + value + "\"");
    return *number;
  }

  void take_rule(const std::string& value) {
    for (const auto& [rule, name] : rule_names)
      if (name == value) {
        plan_.ready_rule = rule;
        return;
      }
    reader_.fail("ready rule \"" + value + "\" is none of forward-first, backward-first, plan-order");
  }

  void take_stage(const std::string& words) {
    const auto begin = words.find_first_not_of(blanks);
    const std::string number = begin == std::string::npos ? "" : words.substr(begin);
    if (to_number(number) != static_cast<int>(plan_.stages.size()))
      reader_.fail("stage " + std::to_string(plan_.stages.size()) + " is expected here, not \"" + number + "\"");
    lines_.push_back(reader_.line());
    auto& list = plan_.stages.emplace_back();
    list.reserve(static_cast<std::size_t>(size_.actions(plan_.stages.size() - 1)));
    while (const auto word = reader_.next_field(blanks)) {
      const auto plus = word->find('+');
      if (plus != std::string_view::npos) {  // a braid
        plan_.braids.resize(plan_.stages.size());
        plan_.braids.back().push_back(static_cast<std::int32_t>(list.size()));
        list.push_back(action_of(word->substr(0, plus)));
      }
      list.push_back(action_of(plus == std::string_view::npos ? *word : word->substr(plus + 1)));
    }
  }

  Action action_of(std::string_view word) const {
    const auto action = parse_action(word, plan_.slices);
    if (!action)
      reader_.fail("\"" + std::string(word) + "\" is not an action such as " +
                   (plan_.slices > 1 ? "F0.1, 1B3.0 or N, of " + std::to_string(plan_.slices) + " slices" : "F0, 1B3 or N"));
    return *action;
  }

  // Reads "X1", then "send-stats after 0:X0 1:B0 uses nic".
  void take_custom(const std::string& number) {
    const std::string expected = "X" + std::to_string(plan_.custom.size());
    if (number != expected) reader_.fail("custom " + expected + " is expected here, not \"" + number + "\"");
    const std::string name(reader_.next_field(blanks).value_or(""));
    if (name.empty()) reader_.fail("custom " + expected + " has no name; give one");
    CustomAction& custom = plan_.custom.emplace_back();
    custom.name = name;
    bool uses = false;
    auto word = reader_.next_field(blanks);
    if (word && *word != "after" && *word != "uses")
      reader_.fail("\"" + std::string(*word) + "\" is neither \"after\" nor \"uses\"");
    if (word) uses = *word == "uses";
    while (word) {
      word = reader_.next_field(blanks);
      if (word && !uses && *word == "uses") {
        uses = true;
      } else if (word && uses) {
        custom.resources.emplace_back(*word);
      } else if (word) {
        custom.after.push_back(stage_action(std::string(*word)));
      }
    }
  }

  StageAction stage_action(const std::string& word) const {
    const auto colon = word.find(':');
    const auto stage = to_number(std::string_view(word).substr(0, colon));
    const auto action =
        colon == std::string::npos ? std::nullopt : parse_action(std::string_view(word).substr(colon + 1), plan_.slices);
    if (!stage || *stage < 0 || !action) reader_.fail("\"" + word + "\" is not an action of a stage such as 0:F0 or 2:1B3");
    return {*stage, *action};
  }

  // A custom action belongs to the stage whose list contains it.
  void place_customs() {
    if (plan_.custom.empty()) return;
    for (std::size_t stage = 0; stage < plan_.stages.size(); ++stage)
      for (const Action& action : plan_.stages[stage])
        if (is_custom(action.kind) && action.microbatch < std::ssize(plan_.custom))
          plan_.custom[static_cast<std::size_t>(action.microbatch)].stage = static_cast<int>(stage);
  }

  FieldReader reader_;
  PlanSize size_;
  Plan plan_;
  std::set<std::string> keys_;  // seen
  bool is_v_shape_ = false;
  int chunks_ = 1, microbatches_ = 0;
  std::vector<int> lines_;
};

}  // namespace

std::string to_text(const Plan& plan) {
  const int stages = plan.placement.stages(), chunks = plan.placement.chunks();
  const ActionForm form = plan.form();
  const bool is_v_shape = plan.placement != Placement::looping(stages, chunks);
  std::string text = "schedule: " + plan.schedule + "\nplacement: " + (is_v_shape ? "v-shape" : "looping") +
                     "\nchunks: " + std::to_string(chunks) +
                     "\nmicrobatches: " + std::to_string(plan.microbatches / plan.slices) + "\n";
  if (plan.slices > 1) text += "slices: " + std::to_string(plan.slices) + "\n";
  for (const auto& [rule, name] : rule_names)
    if (plan.ready_rule == rule) text += "ready: " + std::string(name) + "\n";
  for (std::size_t number = 0; number < plan.custom.size(); ++number) {
    const CustomAction& custom = plan.custom[number];
    text += "custom X" + std::to_string(number) + ": " + custom.name;
    const char* word = " after ";
    for (const StageAction& one : custom.after)
      text += std::exchange(word, " ") + std::to_string(one.stage) + ":" + to_string(one.action, form);
    word = " uses ";
    for (const std::string& resource : custom.resources) text += std::exchange(word, " ") + resource;
    text += "\n";
  }
  for (int stage = 0; stage < stages; ++stage) {
    text += "stage " + std::to_string(stage) + ":";
    const std::vector<bool> braids = braid_starts(plan, stage);
    const char* before = " ";
    for (std::size_t place = 0; place < plan.stages[static_cast<std::size_t>(stage)].size(); ++place) {
      text += before + to_string(plan.stages[static_cast<std::size_t>(stage)][place], form);
      before = !braids.empty() && braids[place] ? "+" : " ";
    }
    text += "\n";
  }
  return text;
}

Plan parse_plan(std::istream& text, const std::string& name) { return PlanParser(text, name).parse(); }

Plan parse_plan(std::string_view text, const std::string& name) {
  std::istringstream stream{std::string(text)};
  return parse_plan(stream, name);
}

}  // namespace pipetrain::schedules
