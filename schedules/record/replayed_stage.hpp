// The log of one stage in a replay: its messages and launches, and how far they have been replayed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedules/record/log_codec.hpp"
#include "schedules/record/recording.hpp"
#include "schedules/record/replay_queues.hpp"

namespace pipetrain::schedules {

// The queue between a chunk of a stage and its neighbour.
struct QueueEnd {
  QueueState* queue = nullptr;  // null where the run has no slots for it
  int log = -1;                 // of the stage at the other end; -1: a feeder
  int own_chunk = -1;           // the chunk at the other end, where it belongs to the same stage
};

// The queues of a chunk, which every message needs: by InputKind, those from which it consumes and those that it fills. It
// fills none of targets.
struct ReplayedChunk {
  bool is_first = false, is_last = false;
  std::array<QueueEnd, 3> from, to;

  // Returns the kind of queue that the action fills; nothing if its output goes nowhere.
  std::optional<InputKind> output_of(const Action& action) const {
    if (action.kind == ActionKind::forward && !is_last) return InputKind::activation;
    return gives_input_grad(action.kind) && !is_first ? std::optional(InputKind::gradient) : std::nullopt;
  }
};

// Not thread-safe.
class ReplayedStage {
 public:
  ReplayedStage(StageProtocol stage_protocol, const RecordedRun& run)
      : protocol(std::move(stage_protocol)),
        reader_(run.plan.placement.chunks(), run.plan.microbatches, static_cast<int>(run.plan.custom.size())) {}

  StageProtocol protocol;
  std::vector<ReplayedChunk> chunks;

  const ReplayedChunk& chunk(const Action& action) const { return chunks[static_cast<std::size_t>(action.chunk)]; }
  // Return the end of the queue from which the action's chunk consumes, or that it fills.
  const QueueEnd& from(InputKind kind, const Action& action) const {
    return chunk(action).from[static_cast<std::size_t>(kind)];
  }
  const QueueEnd& to(InputKind kind, const Action& action) const { return chunk(action).to[static_cast<std::size_t>(kind)]; }

  // Reads the log of a step. Throws LogError for bytes that are no log.
  void load(const StageLog& bytes);
  const LogEvents& log() const { return log_; }
  // Returns true where the log is missing: what the stage sent is not known.
  bool is_silent() const { return silent_; }

  bool is_at_end() const { return next_ == end_; }
  const StageEvent& next() const { return *next_; }
  void advance() { ++next_; }
  bool launches_next() const { return next_ != end_ && next_->type == StageEvent::Type::launched; }
  // Describes the next event for people: "event 4 (B3 completes)".
  std::string place(const ActionForm& form) const;

  // Returns the stage's actions in the order in which it launched them.
  std::vector<Action> launched() const;

 private:
  StageLogReader reader_;
  LogEvents log_;
  const StageEvent *next_ = nullptr, *end_ = nullptr;  // in the log's events
  bool silent_ = false;
};

// Times of the loaded step on the steady clock: the first start of an action (where none was measured, the first
// message), and the last message or end of an action.
std::int64_t begin_of(const std::vector<ReplayedStage>& stages);
std::int64_t end_of(const std::vector<ReplayedStage>& stages);

// Describes the event for people: "the gradient of microbatch 3 arrives", "1F3 is launched".
std::string to_string(const StageEvent& event, const ActionForm& form);

}  // namespace pipetrain::schedules
