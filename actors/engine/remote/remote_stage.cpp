#include "actors/engine/remote/remote_stage.hpp"

#include <algorithm>

namespace pipetrain {

caf::behavior RemoteStageActor::make_behavior() {
  return {
      // --- the supervisor to the stage ---
      [this](BeginStep& message) { cross(message); },
      [this](GiveVerdict& message) { cross(message); },
      [this](Signalled& message) { cross(message); },
      [this](ReportWaiting& message) { cross(message); },
      [this](ReportMemory& message) { cross(message); },
      [this](ReadState& message) {
        readings_[message.number] = {message.out, message.part.elements};
        cross(StateWanted{message.number, message.part});
      },
      [this](SaveState& message) { cross(message); },
      [this](Abort& message) {
        readings_.clear();  // whoever asked gets the failure and frees the memory
        setup_.on_abort(message.cause);
        setup_.channel->send(setup_.process, {{}, message});
      },
      // --- the stage to the supervisor ---
      [this](NormDone& message) { say(message); },
      [this](Signal& message) { say(message); },
      [this](StepDone& message) { say(message); },
      [this](Logged& message) { say(message); },
      [this](Stopped& message) { say(message); },
      [this](Waiting& message) { say(message); },
      [this](MemoryReport& message) { say(message); },
      [this](StatePiece& message) { take(message); },
      [this](StateSaved& message) { say(message); },
      [this](ProcessGone&) {
        readings_.clear();
        send(setup_.supervisor, Stopped{setup_.id, "its process is gone"});
      },
  };
}

void RemoteStageActor::on_exit() {
  setup_.supervisor = nullptr;
  setup_.channel.reset();
  setup_.on_abort = {};
}

void RemoteStageActor::take(const StatePiece& piece) {
  const auto found = readings_.find(piece.number);
  if (found == readings_.end()) return;  // given up after a failure
  Reading& reading = found->second;
  if (piece.total != reading.elements || piece.offset != reading.received) {
    readings_.erase(found);
    Failure cause = loss_of(setup_.channel->control(), setup_.process, "it sent another state than was requested");
    send(setup_.supervisor, Failed{std::move(cause)});
    return;
  }
  std::copy(piece.values.begin(), piece.values.end(), reading.out + reading.received);
  reading.received += piece.values.size();
  if (reading.received < reading.elements) return;
  readings_.erase(found);
  send(setup_.supervisor, StateRead{piece.number});
}

caf::behavior RemoteFeedersActor::make_behavior() {
  return {
      [this](BeginStep& message) {
        channel_->send(process_, {{}, message});
      },
      // A process without stages gets it in no other way.
      [this](Abort& message) {
        channel_->send(process_, {{}, message});
      },
  };
}

}  // namespace pipetrain
