#include "actors/engine/remote/dispatcher.hpp"

#include <type_traits>
#include <utility>

#include "actors/engine/remote/remote_stage.hpp"
#include "actors/engine/remote/remote_supervisor.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

template <class Type, class... Others>
inline constexpr bool is_one_of = (std::is_same_v<Type, Others> || ...);

class Dispatcher {
 public:
  explicit Dispatcher(DispatchTargets targets) : targets_(std::move(targets)) {}

 protected:
  // Returns the actor of a stage that runs in that process.
  const caf::actor& stage_in(int process, const std::optional<StageId>& stage) const {
    if (!stage) WireReader::refuse("no stage as its receiver");
    const int rank = targets_.parts.rank(coordinate(*stage));
    if (targets_.parts.place(rank).process != process) WireReader::refuse("a stage of another process");
    return targets_.stages[static_cast<std::size_t>(rank)];
  }
  int process() const { return targets_.channel->process(); }
  void send(int process, RemoteMessage message) const { targets_.channel->send(process, message); }
  Failure loss(int process, const std::string& why) const { return loss_of(targets_.channel->control(), process, why); }

  DispatchTargets targets_;
};

class LeaderDispatcher : public Dispatcher {
 public:
  using Dispatcher::Dispatcher;

  void received(int from, std::span<const std::byte> bytes) const {
    try {
      RemoteMessage message = decode(bytes, targets_.limits);
      std::visit([&](auto& body) { take(from, message.stage, body); }, message.body);
    } catch (const Error& error) {
      caf::anon_send(targets_.supervisor, Failed{loss(from, error.what())});
    }
  }

  void lost(int gone, const Failure& failure) const {
    caf::anon_send(targets_.supervisor, Failed{failure});
    for (const int rank : targets_.parts.ranks_of(gone)) {
      if (gone != process()) caf::anon_send(targets_.stages[static_cast<std::size_t>(rank)], ProcessGone{});
    }
  }

 private:
  template <class Body>
  void take(int from, const std::optional<StageId>& stage, Body& body) const {
    if constexpr (is_one_of<Body, NormDone, Signal, StepDone, Logged, Stopped, Waiting, MemoryReport, StatePiece, StateSaved>) {
      caf::anon_send(stage_in(from, stage), std::move(body));
    } else if constexpr (std::is_same_v<Body, Failed>) {
      if (body.cause.where.empty() && !body.cause.names_place)
        body.cause.where = to_string(targets_.channel->control().info(from));
      caf::anon_send(targets_.supervisor, std::move(body));
    } else if constexpr (std::is_same_v<Body, WaitingWanted>) {
      caf::anon_send(targets_.supervisor,
                     AskWaiting{[channel = targets_.channel, from, number = body.number](std::vector<std::string> lines) {
                       channel->send(from, {{}, WaitingLines{number, std::move(lines)}});
                     }});
    } else if constexpr (std::is_same_v<Body, ProcessFailed>) {
      lost(from, body.cause);
    } else {
      WireReader::refuse("a message that only process 0 may send");
    }
  }
};

class FollowerDispatcher : public Dispatcher {
 public:
  using Dispatcher::Dispatcher;

  void received(int from, std::span<const std::byte> bytes) const {
    try {
      RemoteMessage message = decode(bytes, targets_.limits);
      if (auto* build = std::get_if<ProcessFailed>(&message.body)) return abort(build->cause);
      if (from != 0) WireReader::refuse("a message that only process 0 may send");
      std::visit([&](auto& body) { take(message.stage, body); }, message.body);
    } catch (const Error& error) {
      send(0, {{}, Failed{loss(from, error.what())}});
      abort(loss(from, error.what()));
    }
  }

  // Tells process 0, which may not know yet and answers by ending the run.
  void lost(int gone, const Failure& failure) const {
    if (gone == 0) return abort(failure);
    send(0, {{}, Failed{failure}});
  }

 private:
  void abort(const Failure& cause) const { caf::anon_send(targets_.supervisor, Abort{cause}); }

  template <class Body>
  void take(const std::optional<StageId>& stage, Body& body) const {
    if constexpr (std::is_same_v<Body, BeginStep>) {
      if (stage) return caf::anon_send(stage_in(process(), stage), body);
      for (const auto& feeder : targets_.feeders) caf::anon_send(feeder, body);
    } else if constexpr (is_one_of<Body, GiveVerdict, Signalled, ReportWaiting, ReportMemory, SaveState>) {
      caf::anon_send(stage_in(process(), stage), body);
    } else if constexpr (std::is_same_v<Body, StateWanted>) {
      stage_in(process(), stage);
      caf::anon_send(targets_.supervisor, SendState{*stage, std::move(body)});
    } else if constexpr (std::is_same_v<Body, RunEnds>) {
      targets_.channel->expect_end();
      caf::anon_send(targets_.supervisor, body);
    } else if constexpr (is_one_of<Body, Abort, WaitingLines>) {
      caf::anon_send(targets_.supervisor, std::move(body));
    } else {
      WireReader::refuse("a message that only other processes send to process 0");
    }
  }
};

template <class Kind>
EngineChannel::Receiver receiver_of(DispatchTargets targets) {
  auto dispatcher = std::make_shared<const Kind>(std::move(targets));
  return {[dispatcher](int from, std::span<const std::byte> message) { dispatcher->received(from, message); },
          [dispatcher](int process, const Failure& failure) { dispatcher->lost(process, failure); }};
}

}  // namespace

EngineChannel::Receiver dispatch_in_process_0(DispatchTargets targets) {
  return receiver_of<LeaderDispatcher>(std::move(targets));
}
EngineChannel::Receiver dispatch_elsewhere(DispatchTargets targets) {
  return receiver_of<FollowerDispatcher>(std::move(targets));
}

}  // namespace pipetrain
