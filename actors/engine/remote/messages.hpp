// The messages between the engines of a run's processes: the actors' messages that cross processes, and a few of the
// processes themselves.
//
//   process 0 -> a stage        BeginStep, GiveVerdict, Signalled, ReportWaiting, ReportMemory, StateWanted, SaveState
//   process 0 -> a process      BeginStep (for its feeders), Abort, WaitingLines, RunEnds
//   a stage   -> process 0      NormDone, Signal, StepDone, Logged, Stopped, Waiting, MemoryReport, StatePiece, StateSaved
//   a process -> process 0      Failed, WaitingWanted
//   any       -> any            ProcessFailed
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/engine/protocol.hpp"

namespace pipetrain {

// They replace ReadState and StateRead, whose pointer means nothing in another process: the values return in pieces, in order.
struct StateWanted {
  std::int64_t number;
  StatePart part;
};
struct StatePiece {
  std::int64_t number;
  std::uint64_t offset, total;  // in values
  std::vector<float> values;
};

// A process asks what all stages wait for.
struct WaitingWanted {
  std::int64_t number;
};
struct WaitingLines {
  std::int64_t number;
  std::vector<std::string> lines;
};

// No step follows: the processes may exit.
struct RunEnds {};
// The sender has left the run: it could not build its part, or gave it up.
struct ProcessFailed {
  Failure cause;
};

struct RemoteMessage {
  // The stage that sends or receives it; no value: the process itself.
  std::optional<StageId> stage;
  std::variant<BeginStep, GiveVerdict, Abort, ReportWaiting, ReportMemory, StateWanted, NormDone, StepDone, Logged, Failed,
               Stopped, Waiting, MemoryReport, StatePiece, WaitingWanted, WaitingLines, RunEnds, ProcessFailed, SaveState,
               StateSaved, Signal, Signalled>
      body;
};

}  // namespace pipetrain

PIPETRAIN_MESSAGE(pipetrain::StateWanted)
PIPETRAIN_MESSAGE(pipetrain::StatePiece)
PIPETRAIN_MESSAGE(pipetrain::WaitingLines)
PIPETRAIN_MESSAGE(pipetrain::RunEnds)
