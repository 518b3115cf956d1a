// The questions that the supervisor has put to stages and that are not answered yet: what they wait for, their memory and
// their state.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "actors/engine/stage_roster.hpp"
#include "schedules/plan/hanging.hpp"

namespace pipetrain {

// The answers of all stages to one ReportWaiting.
struct WaitingReport {
  std::vector<std::string> lines;  // by stage; empty where a stage has not answered
  std::vector<schedules::RunningActions> running;
  std::int64_t completed = 0;  // actions of all stages
  int missing = 0;
  std::function<void(WaitingReport&)> answer;
};

// Belongs to the supervisor's actor, and is used on its thread alone. The roster is the supervisor's.
class StageQuestions {
 public:
  StageQuestions(caf::event_based_actor& actor, const StageRoster& stages) : actor_(actor), stages_(stages) {}

  // Each asks stages; `answer` is called, or gets its value, when all of them have answered.
  std::int64_t ask_waiting(std::function<void(WaitingReport&)> answer);  // returns the report's number
  void ask_memory(AskMemory& message);
  void ask_state(AskState& message);
  void ask_save(AskSave& message);

  void answered(Waiting& message);
  void answered(MemoryReport& message);
  void answered(const StateRead& message);
  void answered(StateSaved& message);

  // Returns the report of this number; null if all stages have answered.
  const WaitingReport* unanswered(std::int64_t number) const;
  // After a failure nothing answers these questions.
  void refuse(const std::exception_ptr& why);
  void refuse_saving(const std::exception_ptr& why);

 private:
  struct MemoryQuestion {
    std::shared_ptr<std::promise<std::vector<MemoryUse>>> answer;
    std::vector<std::vector<MemoryUse>> stages;
    int missing = 0;
  };
  struct Saving {
    std::shared_ptr<std::promise<std::vector<std::string>>> answer;
    std::vector<std::string> reports;  // by stage
    std::optional<Failure> failure;    // the first
    int missing = 0;
  };

  template <class Message>
  void to_stages(const Message& message) {
    for (auto& stage : stages_.actors) actor_.send(stage, message);
  }

  caf::event_based_actor& actor_;
  const StageRoster& stages_;
  std::int64_t asked_ = 0;  // numbers the questions of all kinds
  std::map<std::int64_t, WaitingReport> waiting_;
  std::map<std::int64_t, MemoryQuestion> memory_;
  std::map<std::int64_t, std::shared_ptr<std::promise<void>>> states_;
  std::map<std::int64_t, Saving> saving_;
};

}  // namespace pipetrain
