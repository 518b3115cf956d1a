#include "actors/engine/stage_questions.hpp"

#include <utility>

namespace pipetrain {

std::int64_t StageQuestions::ask_waiting(std::function<void(WaitingReport&)> answer) {
  const std::int64_t number = asked_++;
  WaitingReport& report = waiting_[number];
  report.lines.resize(stages_.size());
  report.missing = static_cast<int>(stages_.size());
  report.answer = std::move(answer);
  to_stages(ReportWaiting{number});
  return number;
}

void StageQuestions::answered(Waiting& message) {
  const auto found = waiting_.find(message.report);
  if (found == waiting_.end()) return;
  WaitingReport& report = found->second;
  const std::size_t at = stages_.index(message.stage);
  report.lines[at] = stages_.label(at) + ": " + message.line;
  report.completed += message.completed;
  report.running.push_back({message.stage.replica, message.stage.stage, std::move(message.running)});
  if (--report.missing > 0) return;
  report.answer(report);
  waiting_.erase(found);
}

const WaitingReport* StageQuestions::unanswered(std::int64_t number) const {
  const auto found = waiting_.find(number);
  return found == waiting_.end() ? nullptr : &found->second;
}

void StageQuestions::ask_memory(AskMemory& message) {
  const std::int64_t number = asked_++;
  memory_[number] = {std::move(message.answer), std::vector<std::vector<MemoryUse>>(stages_.size()),
                     static_cast<int>(stages_.size())};
  to_stages(ReportMemory{number});
}

void StageQuestions::answered(MemoryReport& message) {
  const auto found = memory_.find(message.report);
  if (found == memory_.end()) return;
  MemoryQuestion& question = found->second;
  question.stages[stages_.index(message.stage)] = std::move(message.ranks);
  if (--question.missing > 0) return;
  std::vector<MemoryUse> ranks;
  for (const auto& stage : question.stages) ranks.insert(ranks.end(), stage.begin(), stage.end());
  question.answer->set_value(std::move(ranks));
  memory_.erase(found);
}

void StageQuestions::ask_state(AskState& message) {
  const std::int64_t number = asked_++;
  states_[number] = std::move(message.answer);
  actor_.send(stages_.at(message.stage), ReadState{number, std::move(message.part), message.out});
}

void StageQuestions::answered(const StateRead& message) {
  const auto found = states_.find(message.number);
  if (found == states_.end()) return;
  found->second->set_value();
  states_.erase(found);
}

void StageQuestions::ask_save(AskSave& message) {
  const std::int64_t number = asked_++;
  saving_[number] = {std::move(message.answer), std::vector<std::string>(stages_.size()), {}, static_cast<int>(stages_.size())};
  to_stages(SaveState{number, message.where});
}

// Waits for all stages, even after a failure: when the answer comes, no stage writes any more.
void StageQuestions::answered(StateSaved& message) {
  const auto found = saving_.find(message.number);
  if (found == saving_.end()) return;
  Saving& saving = found->second;
  if (message.failure && !saving.failure) saving.failure = std::move(message.failure);
  saving.reports[stages_.index(message.stage)] = std::move(message.report);
  if (--saving.missing > 0) return;
  if (saving.failure) {
    saving.answer->set_exception(exception_of(*saving.failure));
  } else {
    saving.answer->set_value(std::move(saving.reports));
  }
  saving_.erase(found);
}

void StageQuestions::refuse(const std::exception_ptr& why) {
  for (auto& [number, question] : memory_) question.answer->set_exception(why);
  for (auto& [number, answer] : states_) answer->set_exception(why);
  memory_.clear();
  states_.clear();
}

void StageQuestions::refuse_saving(const std::exception_ptr& why) {
  for (auto& [number, saving] : saving_) saving.answer->set_exception(why);
  saving_.clear();
}

}  // namespace pipetrain
