#include "schedules/plan/check_customs.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "schedules/plan/custom_waits.hpp"
#include "schedules/plan/grid.hpp"
#include "schedules/plan/invalid_plan.hpp"

namespace pipetrain::schedules {

namespace {

constexpr std::size_t most_name_bytes = 200;

class CustomCheck {
 public:
  explicit CustomCheck(const Plan& plan) : plan_(plan) {}

  void run() {
    if (static_cast<std::int64_t>(plan_.custom.size()) * plan_.placement.stages() > most_plan_work)
      throw InvalidPlan("the plan has " + std::to_string(plan_.custom.size()) + " custom actions, too many for " +
                            std::to_string(plan_.placement.stages()) + " stages; use fewer",
                        -1, "");
    if (plan_.ready_rule != ReadyRule::none)
      throw InvalidPlan("the plan has custom actions, for which there is no ready rule; leave its rule out", -1, "");
    for (std::size_t number = 0; number < plan_.custom.size(); ++number) check_words(static_cast<int>(number));
    note_places();
    for (int number = 0; number < static_cast<int>(plan_.custom.size()); ++number)
      if (!find(place_of(number))) fail(number, "is in no stage's list");
    each_custom_wait(plan_, [&](int number, const StageAction& awaited) { check_wait(number, awaited); });
  }

 private:
  using Key = std::tuple<int, ActionKind, std::int16_t, std::int32_t>;
  static Key key(const StageAction& one) { return {one.stage, one.action.kind, one.action.chunk, one.action.microbatch}; }

  StageAction place_of(int number) const {
    return {plan_.custom[static_cast<std::size_t>(number)].stage, {ActionKind::custom, 0, number}};
  }

  void check_words(int number) const {
    const CustomAction& one = plan_.custom[static_cast<std::size_t>(number)];
    const auto is_word = [](const std::string& text) {
      return !text.empty() && text.size() <= most_name_bytes && std::all_of(text.begin(), text.end(), [](char c) {
        return c > ' ' && c < 0x7f && c != '#' && c != ':' && c != ',' && c != '=';
      });
    };
    if (!is_word(one.name) || !std::all_of(one.resources.begin(), one.resources.end(), is_word))
      fail(number, "needs a name of letters, digits and signs other than # : , = and so do its resources");
    if (one.stage < 0 || one.stage >= plan_.placement.stages()) fail(number, "is of a stage that the plan does not have");
  }

  // Notes the positions of custom actions in the lists, and of all actions that they wait for.
  void note_places() {
    each_custom_wait(plan_, [&](int, const StageAction& awaited) { places_[key(awaited)] = nowhere; });
    for (int stage = 0; stage < plan_.placement.stages(); ++stage) {
      const auto& list = plan_.stages[static_cast<std::size_t>(stage)];
      for (std::size_t at = 0; at < list.size(); ++at) {
        if (is_custom(list[at].kind)) {
          note_custom(stage, at, list[at]);
        } else if (const auto found = places_.find(key({stage, list[at]})); found != places_.end()) {
          found->second = at;
        }
      }
    }
  }

  void note_custom(int stage, std::size_t at, const Action& action) {
    const auto refuse = [&](const std::string& what) {
      throw InvalidPlan("stage " + std::to_string(stage) + ": " + to_string(action, plan_.form()) + what, stage,
                        print_grid(plan_, {{stage, at}}));
    };
    if (action.chunk != 0) refuse(" is of the whole stage and must carry chunk 0");
    if (action.microbatch < 0 || action.microbatch >= std::ssize(plan_.custom))
      refuse(" is no custom action of the plan, which has " + std::to_string(plan_.custom.size()));
    const int owner = place_of(action.microbatch).stage;
    if (owner != stage) refuse(" is of stage " + std::to_string(owner));
    std::size_t& place = places_.try_emplace(key({stage, action}), nowhere).first->second;
    if (place != nowhere) refuse(" comes twice");
    place = at;
  }

  std::optional<std::size_t> find(const StageAction& one) const {
    const auto found = places_.find(key(one));
    if (found == places_.end() || found->second == nowhere) return std::nullopt;
    return found->second;
  }

  void check_wait(int number, const StageAction& awaited) const {
    const StageAction own = place_of(number);
    const std::string name = std::to_string(awaited.stage) + ":" + to_string(awaited.action, plan_.form());
    if (is_move(awaited.action.kind)) fail(number, "waits for " + name + ", a move; name what it comes after or before");
    const auto place = find(awaited);
    if (!place) fail(number, "is after " + name + ", which is not in the plan");
    if (awaited.stage == own.stage && *place >= *find(own)) fail(number, "comes before " + name + ", which it waits for");
  }

  [[noreturn]] void fail(int number, const std::string& what) const {
    const StageAction own = place_of(number);
    std::vector<GridMark> marks;
    if (const auto place = find(own)) marks.push_back({own.stage, *place});
    const bool placed = own.stage >= 0 && own.stage < plan_.placement.stages();
    throw InvalidPlan(custom_name(plan_, number) + " " + what, placed ? own.stage : -1, print_grid(plan_, marks));
  }

  static constexpr std::size_t nowhere = static_cast<std::size_t>(-1);
  const Plan& plan_;
  std::map<Key, std::size_t> places_;
};

}  // namespace

void check_customs(const Plan& plan) { CustomCheck(plan).run(); }

std::string custom_name(const Plan& plan, int number) {
  const std::string text = to_string(Action{ActionKind::custom, 0, number});
  if (number < 0 || number >= std::ssize(plan.custom)) return text;
  return text + " (" + plan.custom[static_cast<std::size_t>(number)].name + ")";
}

}  // namespace pipetrain::schedules
