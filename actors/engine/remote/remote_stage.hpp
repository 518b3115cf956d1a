// Stands in process 0 for a stage of another process: passes the supervisor's messages there and the stage's answers
// back, in order.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "actors/engine/remote/engine_channel.hpp"
#include "actors/engine/remote/messages.hpp"

namespace pipetrain {

// The process is gone: nothing arrives from it any more.
struct ProcessGone {};

class RemoteStageActor : public caf::event_based_actor {
 public:
  struct Setup {
    StageId id;
    int process = 0;  // where the stage runs
    std::shared_ptr<EngineChannel> channel;
    caf::actor supervisor;
    std::function<void(const Failure&)> on_abort;  // thread-safe
  };
  RemoteStageActor(caf::actor_config& config, Setup setup) : caf::event_based_actor(config), setup_(std::move(setup)) {}

  caf::behavior make_behavior() override;
  void on_exit() override;
  const char* name() const override { return "remote stage"; }

 private:
  // The part of a state that has not arrived yet.
  struct Reading {
    float* out;
    std::size_t elements, received = 0;
  };

  template <class Message>
  void cross(Message message) {
    setup_.channel->send(setup_.process, {setup_.id, std::move(message)});
  }
  template <class Message>
  void say(Message& message) {
    send(setup_.supervisor, std::move(message));
  }
  void take(const StatePiece& piece);

  Setup setup_;
  std::map<std::int64_t, Reading> readings_;
};

// Stands in process 0 for the feeders of another process.
class RemoteFeedersActor : public caf::event_based_actor {
 public:
  RemoteFeedersActor(caf::actor_config& config, int process, std::shared_ptr<EngineChannel> channel)
      : caf::event_based_actor(config), process_(process), channel_(std::move(channel)) {}

  caf::behavior make_behavior() override;
  void on_exit() override { channel_.reset(); }
  const char* name() const override { return "remote feeders"; }

 private:
  int process_;
  std::shared_ptr<EngineChannel> channel_;
};

}  // namespace pipetrain

PIPETRAIN_MESSAGE(pipetrain::ProcessGone)
