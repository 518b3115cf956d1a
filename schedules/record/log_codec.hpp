// The flight record of a stage: the messages that it received and its decisions, as a few bytes each.
//
// A log holds the messages of the stage's actor with their times, in the order in which it handled them (a step begins,
// inputs, credits, enqueued and completed actions, the verdict, an abort), after each message the actions that the
// stage launched because of it, and at the end the times of the completed actions. One byte names an event as long as
// microbatches come in order. A time is the distance from the previous one, in ticks of 100 ns for messages and in
// nanoseconds for actions, as a varint (seven bits a byte, lowest first). Predictions (the next microbatch of this
// input, the oldest launched action) continue from log to log of a stage, so the logs must be read in order.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/plan/plan.hpp"
#include "schedules/protocol/stage_protocol.hpp"
#include "schedules/record/stage_log.hpp"

namespace pipetrain::schedules {

constexpr std::int64_t log_tick_ns = 100;

struct StageEvent {
  enum class Type : std::uint8_t {
    begin_training,
    begin_evaluation,
    verdict_apply,
    verdict_skip,
    abort,
    input,      // of chunk and microbatch
    credit,     // for this chunk's output of the kind
    launched,   // the stage's decision; all others are messages
    enqueued,   // of a launched action
    completed,  // of a launched action
    signalled,  // another stage's action has ended for which this custom action waits
  };
  Type type = Type::abort;
  InputKind input = InputKind::activation;  // of input and credit
  Action action;                            // for an input its chunk and microbatch, for a credit its chunk
  std::int64_t time = 0;                    // ns on the steady clock, floored to ticks; a decision has the time of its message
};

struct LoggedAction {
  Action action;
  std::int64_t start = 0, end = 0;  // ns on the steady clock; both 0: not measured
  bool operator==(const LoggedAction&) const = default;
};

struct LogEvents {
  std::vector<StageEvent> events;
  std::vector<LoggedAction> actions;  // in the order of completion
};

// Actions in progress, oldest first. Usually the oldest is the first to be taken out.
class OpenActions {
 public:
  bool empty() const { return first_ == actions_.size(); }
  const Action& oldest() const { return actions_[first_]; }
  void add(const Action& action) { actions_.push_back(action); }
  void take_oldest() {
    if (++first_ == actions_.size()) clear();
  }
  bool take(const Action& action);  // removes the oldest that equals it; false where there is none
  void clear() { actions_.clear(), first_ = 0; }

 private:
  std::vector<Action> actions_;
  std::size_t first_ = 0;  // those before it were taken out
};

// Predicts the next event; the writer and the reader update it alike.
class LogForecast {
 public:
  LogForecast(int chunks, int microbatches);

  void begin_step();
  void input(InputKind kind, int chunk, int microbatch) {
    next_input(kind, chunk) = microbatch + 1 < microbatches_ ? microbatch + 1 : 0;
  }
  std::int32_t& next_input(InputKind kind, int chunk) { return inputs_[3 * index(chunk) + static_cast<std::size_t>(kind)]; }
  void launched(const Action& action) {
    if (is_compute(action.kind)) launches_[index(action.chunk)][static_cast<std::size_t>(action.kind)] = action.microbatch + 1;
    not_enqueued_.add(action);
    running_.add(action);
  }
  // Predicts the microbatch of the next action of this kind and chunk.
  std::int32_t next_launch(ActionKind kind, int chunk) const {
    return is_compute(kind) ? launches_[index(chunk)][static_cast<std::size_t>(kind)] : -1;
  }
  // Actions launched and not yet enqueued, or not yet completed.
  OpenActions& open(StageEvent::Type type) { return type == StageEvent::Type::enqueued ? not_enqueued_ : running_; }

 private:
  static std::size_t index(int chunk) { return static_cast<std::size_t>(chunk); }

  int microbatches_;
  std::vector<std::int32_t> inputs_;                   // [chunk][input kind]
  std::vector<std::array<std::int32_t, 4>> launches_;  // [chunk][compute kind]
  OpenActions not_enqueued_, running_;
};

// Not thread-safe; one per stage.
class StageLogWriter {
 public:
  using Time = std::chrono::steady_clock::time_point;

  StageLogWriter(int chunks, int microbatches) : forecast_(chunks, microbatches) {}

  void begin(StepKind kind, Time now);
  void verdict(bool apply, Time now) { put(apply ? StageEvent::Type::verdict_apply : StageEvent::Type::verdict_skip, now); }
  void abort(Time now) { put(StageEvent::Type::abort, now); }
  void input(InputKind kind, int chunk, int microbatch, Time now);
  void credit(InputKind kind, int chunk, Time now);
  void enqueued(const Action& action, Time now) { put_open(StageEvent::Type::enqueued, action, now); }
  void completed(const Action& action, Time now) { put_open(StageEvent::Type::completed, action, now); }
  void signalled(int custom, Time now);
  void launched(const Action& action);

  // Returns the log up to here with the times of its completed actions: `actions` in the order of completion, one for
  // each of them.
  StageLog take(const std::vector<LoggedAction>& actions);

 private:
  void byte(int value) { bytes_ += static_cast<char>(value); }
  void varint(std::uint64_t value);
  void message(int opcode, Time now);
  void put(StageEvent::Type type, Time now) { message(static_cast<int>(type), now); }
  void put_open(StageEvent::Type type, const Action& action, Time now);
  void put_action(const Action& action);

  LogForecast forecast_;
  Time base_{};
  std::int64_t tick_ = 0;  // of the last message, from base_
  std::string bytes_;
};

// The exception for bytes that are no log of such a stage; `offset` is their position.
class LogError : public std::runtime_error {
 public:
  LogError(std::size_t at, const std::string& what) : std::runtime_error(what), offset(at) {}
  std::size_t offset;
};

// Reads the logs of one stage in their order. It trusts none of their bytes. Not thread-safe.
class StageLogReader {
 public:
  // customs: the number of custom actions in the plan.
  StageLogReader(int chunks, int microbatches, int customs = 0)
      : chunks_(chunks), microbatches_(microbatches), customs_(customs), forecast_(chunks, microbatches) {}
  // Replaces the contents of `out`. Throws LogError.
  void read(std::int64_t base_ns, std::string_view bytes, LogEvents& out);

 private:
  class Cursor;

  // Each sets all members that the event of this opcode has.
  void read_event(Cursor& in, int opcode, StageEvent& event);
  void read_short(Cursor& in, int opcode, StageEvent& event);
  void read_long(Cursor& in, int opcode, StageEvent& event);
  void read_signal(Cursor& in, StageEvent& event);
  void read_action(Cursor& in, Action& action);
  void check(const Cursor& in, const Action& action) const;
  void close(Cursor& in, StageEvent& event, bool foreseen);
  void read_times(Cursor& in, std::int64_t base_ns, LogEvents& out);

  int chunks_, microbatches_, customs_;
  LogForecast forecast_;
};

}  // namespace pipetrain::schedules
