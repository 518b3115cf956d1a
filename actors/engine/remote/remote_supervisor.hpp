// Takes the supervisor's place in every process but 0: it passes messages of its stages and feeders to process 0, whose
// supervisor decides. It stops this process's actors when process 0 says so or is lost, and reports the end of the run.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/engine/remote/engine_channel.hpp"
#include "actors/engine/remote/messages.hpp"

namespace pipetrain {

// From the dispatcher: process 0 wants a state of one of this process's stages.
struct SendState {
  StageId stage;
  StateWanted wanted;
};

class RemoteSupervisorActor : public caf::event_based_actor {
 public:
  struct Setup {
    std::shared_ptr<EngineChannel> channel;
    std::chrono::milliseconds grace{10000};  // for stages to stop after a failure
    // Fulfilled when the run ends or fails.
    std::shared_ptr<std::promise<void>> end;
    std::function<void(const Failure&)> on_abort;  // thread-safe
    // Returns the number of values in a part of a stage's state. Throws where there is no such part.
    std::function<std::size_t(const StageId&, const StatePart&)> state_elements;
  };
  RemoteSupervisorActor(caf::actor_config& config, Setup setup);

  caf::behavior make_behavior() override;
  void on_exit() override;
  const char* name() const override { return "remote supervisor"; }

 private:
  struct Member {
    StageId id;
    caf::actor actor;
    std::string line;  // names the input that the stage waited for, once it has stopped
  };
  struct Reading {
    StageId stage;
    std::vector<float> values;
  };

  template <class Message>
  void cross(const StageId& stage, Message message) {
    setup_.channel->send(0, {stage, std::move(message)});
  }
  void fail(Failure cause) { setup_.channel->send(0, {{}, Failed{std::move(cause)}}); }
  std::chrono::nanoseconds clock_offset() const;  // to process 0's clock
  void step_done(StepDone& message);
  void stopped(const Stopped& message);
  void abort(const Failure& cause);
  void actor_down(const caf::down_msg& message);
  void send_state(SendState& message);
  void state_read(const StateRead& message);
  void end_when_explained();
  void end_failure();

  Setup setup_;
  std::vector<Member> stages_;
  std::vector<caf::actor> feeders_;
  std::map<std::int64_t, Reading> readings_;
  std::map<std::int64_t, std::function<void(std::vector<std::string>)>> waiting_asked_;
  std::int64_t asked_ = 0;
  std::optional<Failure> failure_;
  std::size_t still_running_ = 0;
};

}  // namespace pipetrain

PIPETRAIN_MESSAGE(pipetrain::SendState)
