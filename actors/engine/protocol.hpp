// Every message between the actors, on one page.
//
// Those that may cross a process are plain data and handles: a slot stands for memory of its receiver, a pointer to host memory
// for memory of whoever asked. Within a process nothing is copied for that. The messages of the facade and of a compute stay in
// their process and may carry more; they are marked "local". How the others cross: actors/engine/remote/.
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
// One queue per virtual edge and kind; named by its consumer.
struct Filled {
  int microbatch;
  SlotHandle slot;
  std::int64_t depends_on = 0;  // the step whose verdict may take this back; 0: it stands
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
// The producer may fill this slot with the output that this kind and chunk of its own names.
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
struct Ran {  // both of the above
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
// From the facade; the promise is kept by the step's end or by its failure.
struct StartStep {
  StepInfo step;
  Decide decide;
  std::shared_ptr<std::promise<StepOutcome>> outcome;
  std::optional<StepInfo> coming = {};  // the step of training that follows for sure: see Pipeline::step()
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
// An action of this stage has completed that a custom action waits for, on another stage of the same replica and part. The
// supervisor, who knows where every stage is, tells that one.
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
// What a stage of a recorded run did until it heard of Abort; before Stopped.
struct Logged {
  StageId stage;
  schedules::StageLog log;
};
// A stage has nothing running any more after Abort; the line says what it waited for when it heard of the failure.
struct Stopped {
  StageId stage;
  std::string line;
};
// No further step is wanted: the running one fails when no action completes for this long.
struct FinishStep {
  std::chrono::milliseconds patience;
};
// Neither the running step is wanted, unless its verdict has been given, nor any later one.
struct LeaveStep {};
struct AskWaiting {
  std::function<void(std::vector<std::string>)> answer;  // must not block
};
struct ReportWaiting {
  std::int64_t report;  // its number: a slow stage may still owe the one before
};
struct Waiting {
  std::int64_t report;
  StageId stage;
  std::string line;
  std::int64_t completed;                  // actions since the stage was born
  std::vector<schedules::Action> running;  // launched and not completed, oldest first
};

// --- what stages hold, asked between steps ---
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
  std::optional<Failure> failure;  // in the report's stead
};

// The supervisor to itself.
struct GraceOver {};
struct LookAgain {
  int watch;  // which chain of looks this belongs to: a newer one replaces it
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
