#include <stdexcept>

#include "actors/engine/remote/codec.hpp"
#include "bench/fuzz/target.hpp"
#include "core/error.hpp"

namespace pipetrain::fuzz {
namespace {

using schedules::Action;
using schedules::ActionKind;

const CodecLimits limits{.parts = {.dp = 2, .pp = 3, .part = 2}, .chunks = 2, .microbatches = 8, .customs = 5};

std::span<const std::byte> message_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string message_text(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// An accepted input must be a message that a process could have sent.
void read_message(std::string_view input) {
  try {
    const Bytes again = encode(decode(message_bytes(input), limits));
    if (encode(decode(again, limits)) != again) throw std::logic_error("a message changed when it was sent on");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::peer_lost) throw;
    throw Error(ErrorKind::input, error.what());  // the kind that the fuzzer expects of a parser
  }
}

std::vector<RemoteMessage> some_messages() {
  const StageId stage{1, 2, 1};
  Failure failure{ErrorKind::numeric, "the loss is NaN", "stage 2"};
  failure.setting = Setting{"lr", "1e9"};
  const DeviceAction device{{ActionKind::input_grad, 1, 7}, {}, {}};
  StepDone done;
  done.trace.stage = stage;
  done.trace.actions = {{{ActionKind::forward, 1, 3}, {}}};
  done.devices = {{device, device}, {}};
  return {{stage, BeginStep{{7, 8, 1e5, 3e-4}}},
          {{}, Abort{failure}},
          {stage, StateWanted{9, {1, "exp_avg", 12, 65536, 1000}}},
          {stage, NormDone{stage, {1.5, -0.0}}},
          {stage, done},
          {stage, Waiting{5, stage, "B1 waits", 12345678901, {{ActionKind::backward, 0, 1}, {ActionKind::custom, 0, 4}}}},
          {stage, MemoryReport{6, stage, {{1, 2, 3, 4, 5, 6, 7}, {}}}},
          {stage, StatePiece{9, 2, 5, {1.25F, -0.0F, 3e38F}}},
          {{}, WaitingLines{3, {"stage 0: waits", ""}}},
          {{}, ProcessFailed{failure}},
          {stage, StateSaved{10, stage, std::string("of\0its own", 10), {}}},
          {stage, Signal{stage, 4, 2}}};
}

}  // namespace

std::vector<Target> engine_targets() {
  Target target{"engine", {}, {}, read_message, nullptr};
  for (const RemoteMessage& message : some_messages()) target.seeds.push_back(message_text(encode(message)));
  target.dictionary = {std::string(4, '\0'), std::string(4, '\xff'), std::string("\x01\0\0\0", 4), std::string(8, '\x7f')};
  return {target};
}

}  // namespace pipetrain::fuzz
