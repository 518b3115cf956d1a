// Replays a recorded run: gives every message of its stages, at the time at which it arrived, to the StageProtocol that the
// stage actors drive, and checks that the same actions result and that no message arrived before it could have been sent.
#pragma once

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "schedules/plan/stage_set.hpp"
#include "schedules/record/recording.hpp"
#include "schedules/record/replay_queues.hpp"
#include "schedules/record/replayed_stage.hpp"

namespace pipetrain::schedules {

// The record and the protocol disagree. what() is one line: the step, the stage, the event and what should have happened.
class ReplayError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The state of a stage at a moment.
struct StageMoment {
  int replica = 0, stage = 0, part = 0;
  std::vector<Action> running;  // launched and not completed, oldest first
  std::string waiting;          // StageProtocol::waiting_for()
};

// Not thread-safe.
class Replay {
 public:
  static constexpr std::int64_t to_its_end = std::numeric_limits<std::int64_t>::max();

  // Throws ReplayError where the run's needs do not fit its plan.
  explicit Replay(RecordedRun run);
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  const RecordedRun& run() const { return run_; }

  // load() reads the next step's logs; play() replays all of it, or what happened until this time (ns on the steady clock),
  // after which no other step can follow. Both throw ReplayError, load() also LogError for bytes that are no log.
  void load(const RecordedStep& step);
  void play(std::int64_t until = to_its_end);
  // Times of the loaded step on that clock: the first start of an action (where none was measured, the first message),
  // and the last message or end of an action.
  std::int64_t begins() const { return begin_of(stages_); }
  std::int64_t ends() const { return end_of(stages_); }

  // Returns the actions that each log's stage completed in the last step, in the order of completion.
  const std::vector<LoggedAction>& actions(int log) const { return of(log).log().actions; }
  // Returns its actions in the order in which it launched them.
  std::vector<Action> launched(int log) const { return of(log).launched(); }
  std::int64_t actions_replayed() const { return actions_; }
  std::int64_t events_replayed() const { return events_; }

  // Returns the state at the moment up to which was replayed.
  std::vector<StageMoment> stages() const;
  const std::vector<QueueState>& queues() const { return queues_.all(); }

 private:
  using Stage = ReplayedStage;

  Stage& of(int log) { return stages_[static_cast<std::size_t>(log)]; }
  const Stage& of(int log) const { return stages_[static_cast<std::size_t>(log)]; }
  QueueState& queue(int log, const QueueEnd& end) const;
  int& signals(int log, int custom) { return queues_.signals(run_.replica_of(log) * run_.parts + log % run_.parts, custom); }

  void advance(int log);
  bool take(int log, const StageEvent& event);  // false: its cause has not been replayed yet
  bool take_input(int log, const StageEvent& event);
  bool take_credit(int log, const StageEvent& event);
  bool take_signal(int log, const StageEvent& event);
  void complete(int log, const Action& action);
  void decide(int log);
  [[noreturn, gnu::noinline]] void disagree(int log, const Action* chosen) const;
  void launch(int log, const Action& action);
  void pass_on(int log, const Action& action);
  void send(int log, InputKind kind, const Action& action);
  void release(int log, InputKind kind, const Action& action);
  void expect_end() const;
  [[noreturn, gnu::noinline]] void fail(int log, const std::string& what) const;

  RecordedRun run_;
  std::vector<Stage> stages_;
  ReplayQueues queues_;
  StageSet to_advance_;
  SlotLife life_;
  std::int64_t step_ = 0, until_ = to_its_end;
  bool failed_ = false;
  int norms_ = 0;
  std::int64_t actions_ = 0, events_ = 0;
};

}  // namespace pipetrain::schedules
