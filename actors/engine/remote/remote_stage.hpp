// In process 0, a stage of another process: what the supervisor tells it crosses, and what it says comes out here, in order.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "actors/engine/remote/engine_channel.hpp"
#include "actors/engine/remote/messages.hpp"

namespace pipetrain {

// Its process is gone: nothing comes from it any more.
struct ProcessGone {};

class RemoteStageActor : public caf::event_based_actor {
 public:
  struct Setup {
    StageId id;
    int process = 0;  // where it runs
    std::shared_ptr<EngineChannel> channel;
    caf::actor supervisor;
    std::function<void(const Failure&)> on_abort;  // thread-safe
  };
  RemoteStageActor(caf::actor_config& config, Setup setup) : caf::event_based_actor(config), setup_(std::move(setup)) {}

  caf::behavior make_behavior() override;
  void on_exit() override;
  const char* name() const override { return "remote stage"; }

 private:
  // What of a state is still to come.
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

// In process 0, the feeders of another process.
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
