// All messages between the actors.
//
// Messages that may cross processes hold plain data and handles: a slot refers to memory of its receiver, a pointer to
// host memory of whoever asked. Within a process they copy nothing. The messages marked "local" stay in their process
// and may carry more: those of the facade and of a compute. actors/engine/remote/ passes the others between processes.
//
//   facade     -> supervisor       local: StartStep, FinishStep, LeaveStep, AskWaiting, AskMemory, AskState, AskSave, Failed
//                                  (to abort); at set-up ConnectSupervisor
//   facade     -> queue            local: at set-up ConnectQueue
//   supervisor -> stages, feeders  BeginStep, Abort; to stages also GiveVerdict, Signalled, ReportWaiting, ReportMemory,
//                                  ReadState, SaveState
//   supervisor -> itself           local: GraceOver, LookAgain
//   producer   -> queue            Filled (the producer is a stage or a feeder)
//   queue      -> consumer         Arrived
//   consumer   -> queue            Released
//   queue      -> producer         Credit
//   compute    -> its stage        local: Enqueued, Completed, Ran, StateRead, StateSaved, Failed
//   stage      -> supervisor       NormDone, Signal, StepDone, Logged, Stopped, Waiting, MemoryReport, StateRead, StateSaved,
//                                  Failed
//   feeder     -> supervisor       Failed
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/engine/caf.hpp"
#include "actors/engine/failure.hpp"
#include "actors/engine/stage_compute.hpp"
#include "actors/engine/step.hpp"
#include "schedules/record/stage_log.hpp"

namespace pipetrain {

// --- the flow of microbatches ---
// There is one queue per virtual edge and kind, named by its consumer.
struct Filled {
  int microbatch;
  SlotHandle slot;
  std::int64_t depends_on = 0;  // the step whose verdict may take this back; 0: final
};
struct Arrived {
  schedules::InputKind kind;
  int chunk;
  int microbatch;
  SlotHandle slot;
  std::int64_t depends_on = 0;
};
struct Released {
  SlotHandle slot;
};
// The producer may fill this slot with the output of this kind and chunk.
struct Credit {
  schedules::InputKind kind;
  int chunk;
  SlotHandle slot;
};

// --- compute to its stage ---
struct Enqueued {
  schedules::Action action;
};
struct Completed {
  schedules::Action action;
  ActionTimes times;
  StageResult result;
};
struct Ran {  // Enqueued and Completed in one
  Completed completed;
};

// --- set-up ---
struct ConnectQueue {
  caf::actor producer, consumer;
};
struct ConnectSupervisor {
  std::vector<StageId> ids;  // replica-major
  std::vector<caf::actor> stages;
  std::vector<caf::actor> feeders;
};

// --- steps ---
// From the facade; the promise is fulfilled when the step ends or fails.
struct StartStep {
  StepInfo step;
  Decide decide;
  std::shared_ptr<std::promise<StepOutcome>> outcome;
  std::optional<StepInfo> coming = {};  // the next training step, if it is certain: see Pipeline::step()
};
struct BeginStep {
  StepInfo step;
  std::optional<StepInfo> coming = {};
};
struct NormDone {
  StageId stage;
  StageResult result;
};
struct GiveVerdict {
  Verdict verdict;
};
// An action of this stage has completed for which a custom action waits on another stage of the same replica and part.
// The supervisor, which knows every stage, forwards it.
struct Signal {
  StageId stage;
  int custom;
  int to_stage;
};
struct Signalled {
  int custom;
};
struct StepDone {
  StageTrace trace;
  std::vector<DeviceActions> devices;
  schedules::StageLog log;  // empty where the run is not recorded
};

// --- ends ---
struct Failed {
  Failure cause;
};
struct Abort {
  Failure cause;
};
// The events of a stage of a recorded run until it received Abort; sent before Stopped.
struct Logged {
  StageId stage;
  schedules::StageLog log;
};
// After Abort, nothing of this stage is running any more; the line says what it waited for when it received Abort.
struct Stopped {
  StageId stage;
  std::string line;
};
// No further step is wanted: the running one fails when no action completes for this long.
struct FinishStep {
  std::chrono::milliseconds patience;
};
// Neither later steps nor the running one is wanted, except a running one whose verdict has been given.
struct LeaveStep {};
struct AskWaiting {
  std::function<void(std::vector<std::string>)> answer;  // must not block
};
struct ReportWaiting {
  std::int64_t report;  // the number of the question: a slow stage may still answer the one before
};
struct Waiting {
  std::int64_t report;
  StageId stage;
  std::string line;
  std::int64_t completed;                  // actions since the stage was made
  std::vector<schedules::Action> running;  // launched and not completed, oldest first
};

// --- state and memory of stages, between steps ---
struct AskMemory {
  std::shared_ptr<std::promise<std::vector<MemoryUse>>> answer;  // of every rank
};
struct ReportMemory {
  std::int64_t report;
};
struct MemoryReport {
  std::int64_t report;
  StageId stage;
  std::vector<MemoryUse> ranks;
};
struct AskState {
  StageId stage;
  StatePart part;
  float* out;
  std::shared_ptr<std::promise<void>> answer;
};
struct ReadState {
  std::int64_t number;
  StatePart part;
  float* out;
};
struct StateRead {
  std::int64_t number;
};
struct AskSave {
  std::string where;
  std::shared_ptr<std::promise<std::vector<std::string>>> answer;  // the reports of all stages, in order
};
struct SaveState {
  std::int64_t number;
  std::string where;
};
struct StateSaved {
  std::int64_t number;
  StageId stage;
  std::string report;
  std::optional<Failure> failure;  // set in place of the report
};

// From the supervisor to itself.
struct GraceOver {};
struct LookAgain {
  int watch;  // the series of looks that this one belongs to: a newer series replaces it
};

}  // namespace pipetrain

PIPETRAIN_MESSAGE(pipetrain::Filled)
PIPETRAIN_MESSAGE(pipetrain::Arrived)
PIPETRAIN_MESSAGE(pipetrain::Released)
PIPETRAIN_MESSAGE(pipetrain::Credit)
PIPETRAIN_MESSAGE(pipetrain::Enqueued)
PIPETRAIN_MESSAGE(pipetrain::Completed)
PIPETRAIN_MESSAGE(pipetrain::Ran)
PIPETRAIN_MESSAGE(pipetrain::ConnectQueue)
PIPETRAIN_MESSAGE(pipetrain::ConnectSupervisor)
PIPETRAIN_MESSAGE(pipetrain::StartStep)
PIPETRAIN_MESSAGE(pipetrain::FinishStep)
PIPETRAIN_MESSAGE(pipetrain::LeaveStep)
PIPETRAIN_MESSAGE(pipetrain::AskWaiting)
PIPETRAIN_MESSAGE(pipetrain::BeginStep)
PIPETRAIN_MESSAGE(pipetrain::NormDone)
PIPETRAIN_MESSAGE(pipetrain::GiveVerdict)
PIPETRAIN_MESSAGE(pipetrain::Signal)
PIPETRAIN_MESSAGE(pipetrain::Signalled)
PIPETRAIN_MESSAGE(pipetrain::StepDone)
PIPETRAIN_MESSAGE(pipetrain::Failed)
PIPETRAIN_MESSAGE(pipetrain::Abort)
PIPETRAIN_MESSAGE(pipetrain::Logged)
PIPETRAIN_MESSAGE(pipetrain::Stopped)
PIPETRAIN_MESSAGE(pipetrain::ReportWaiting)
PIPETRAIN_MESSAGE(pipetrain::Waiting)
PIPETRAIN_MESSAGE(pipetrain::GraceOver)
PIPETRAIN_MESSAGE(pipetrain::LookAgain)
PIPETRAIN_MESSAGE(pipetrain::AskMemory)
PIPETRAIN_MESSAGE(pipetrain::ReportMemory)
PIPETRAIN_MESSAGE(pipetrain::MemoryReport)
PIPETRAIN_MESSAGE(pipetrain::AskState)
PIPETRAIN_MESSAGE(pipetrain::ReadState)
PIPETRAIN_MESSAGE(pipetrain::StateRead)
PIPETRAIN_MESSAGE(pipetrain::AskSave)
PIPETRAIN_MESSAGE(pipetrain::SaveState)
PIPETRAIN_MESSAGE(pipetrain::StateSaved)
