// The engine's messages between processes: a sent message decodes to itself, and a forged one does no harm.
#include <random>

#include "actors/engine/remote/codec.hpp"
#include "actors/thread_processes.hpp"
#include "actors/tiny_run.hpp"
#include "catch.hpp"
#include "core/error.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using schedules::Action;
using schedules::ActionKind;

namespace {

const CodecLimits limits{.parts = {.dp = 2, .pp = 3, .part = 2}, .chunks = 2, .microbatches = 8, .customs = 5};

std::chrono::steady_clock::time_point at_nanosecond(std::int64_t nanoseconds) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(nanoseconds));
}

// One message of each kind.
std::vector<RemoteMessage> all_messages() {
  const StageId stage{1, 2, 1};
  Failure failure{ErrorKind::numeric, "the loss is NaN", "stage 2"};
  failure.setting = Setting{"lr", "1e9"};
  const DeviceAction device{
      {ActionKind::input_grad, 1, 7}, {at_nanosecond(5), at_nanosecond(1234567890123)}, at_nanosecond(-7)};
  StepDone done{{stage,
                 {{{ActionKind::forward, 1, 3}, {at_nanosecond(1), at_nanosecond(2)}},
                  {{ActionKind::norm, 0, -1}, {}},
                  {{ActionKind::preview, 0, -1}, {}}}},
                {{device, device}, {}}};
  return {{stage, BeginStep{{7, 8, 1e5, 3e-4}}},
          {{}, BeginStep{{1, 1, 1, 0}}},
          {stage, BeginStep{{7, 8, 1e5, 3e-4}, StepInfo{8, 8, 9e4, 2e-4, 1024}}},
          {{}, BeginStep{{.step = 9, .frozen_after = 5, .gradient_factor = 0.25}}},
          {stage, GiveVerdict{{false, 0.1 + 0.2}}},
          {stage, GiveVerdict{{true, 1, true}}},
          {{}, Abort{failure}},
          {stage, ReportWaiting{5}},
          {stage, ReportMemory{6}},
          {stage, StateWanted{9, {1, "exp_avg", 12, 65536, 1000}}},
          {stage, NormDone{stage, {1.5, -0.0, std::numeric_limits<double>::quiet_NaN()}}},
          {stage, done},
          {{}, Failed{failure}},
          {stage, Stopped{stage, "F0 waits"}},
          {stage,
           Waiting{5, stage, "B1 waits", 12345678901, {{schedules::ActionKind::backward, 0, 1}, {ActionKind::custom, 0, 4}}}},
          {stage, MemoryReport{6, stage, {{1, 2, 3, 4, 5, 6, 7}, {}}}},
          {stage, StatePiece{9, 2, 5, {1.25F, -0.0F, 3e38F}}},
          {{}, WaitingWanted{3}},
          {{}, WaitingLines{3, {"stage 0: waits", ""}}},
          {{}, RunEnds{}},
          {{}, ProcessFailed{failure}},
          {stage, SaveState{10, "run/step-00000010.partial"}},
          {stage, StateSaved{10, stage, std::string("of\0its own", 10), {}}},
          {stage, StateSaved{11, stage, "", failure}},
          {stage, Signal{stage, 4, 2}},
          {stage, Signalled{4}}};
}

// Damages a message as if in transit.
Bytes spoilt(Bytes bytes, std::mt19937& random) {
  const auto any = [&](std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random); };
  for (std::size_t changes = 1 + any(4); changes > 0; --changes) {
    switch (any(4)) {
      case 0:
        if (!bytes.empty()) bytes[any(bytes.size())] = static_cast<std::byte>(any(256));
        break;
      case 1:
        if (!bytes.empty()) bytes[any(bytes.size())] ^= static_cast<std::byte>(1U << any(8));
        break;
      case 2:
        bytes.resize(any(bytes.size() + 1));
        break;
      default:
        bytes.push_back(static_cast<std::byte>(any(256)));
    }
  }
  return bytes;
}

// Returns the first message of this kind after decoding.
template <class Body>
Body sent_over() {
  for (const RemoteMessage& message : all_messages())
    if (std::holds_alternative<Body>(message.body)) return std::get<Body>(decode(encode(message), limits).body);
  throw std::logic_error("no message of this kind");
}

}  // namespace

TEST_CASE("every message between engines decodes to itself, to the bit", "[processes]") {
  std::size_t kinds = 0;
  for (const RemoteMessage& message : all_messages()) {
    INFO("kind " << message.body.index());
    const Bytes bytes = encode(message);
    const RemoteMessage back = decode(bytes, limits);
    CHECK(back.body.index() == message.body.index());
    CHECK(back.stage == message.stage);
    CHECK(encode(back) == bytes);
    kinds = std::max(kinds, message.body.index() + 1);
  }
  CHECK(kinds == std::variant_size_v<decltype(RemoteMessage::body)>);
}

TEST_CASE("times, floats and settings cross without loss", "[processes]") {
  const auto done = sent_over<StepDone>();
  CHECK(done.devices[0][1].times.end == at_nanosecond(1234567890123));
  CHECK(done.trace.actions[0].action == Action{ActionKind::forward, 1, 3});
  CHECK(done.trace.stage == StageId{1, 2, 1});
  const auto failed = sent_over<Failed>();
  CHECK(failed.cause.setting->value == "1e9");
  CHECK(line_of(failed.cause) == "stage 2: the loss is NaN");
  CHECK(sent_over<GiveVerdict>().verdict.grad_scale == 0.1 + 0.2);
}

TEST_CASE("10,000 malformed messages are refused, or are messages of the run", "[processes][hostile]") {
  std::mt19937 random(14);
  const auto messages = all_messages();
  int refused = 0;
  for (int i = 0; i < 10000; ++i) {
    const Bytes bytes = spoilt(encode(messages[static_cast<std::size_t>(i) % messages.size()]), random);
    INFO("message " << i);
    try {
      const RemoteMessage message = decode(bytes, limits);
      REQUIRE(encode(message) == bytes);
      if (message.stage) {
        REQUIRE(message.stage->replica < 2);
        REQUIRE(message.stage->stage < 3);
        REQUIRE(message.stage->part < 2);
      }
    } catch (const Error& error) {
      REQUIRE(error.kind() == ErrorKind::peer_lost);
      ++refused;
    }
  }
  CHECK(refused > 5000);
}

TEST_CASE("a message that is none ends the run and names its sender", "[processes]") {
  const Bytes nonsense(5, std::byte{250});
  const std::string said = ": a message from another process holds ";
  for (const auto& [from, to] : {std::pair{1, 0}, std::pair{0, 1}, std::pair{2, 1}}) {
    const auto hub = MemoryHub::make(3);
    const auto failures = lead(
        hub, [](int) { return job_of({.layers = 3, .layout = {.pp = 3}}); },
        [&, from = from, to = to](Trainer& trainer) {
          trainer.step();
          hub->forge(from, to, Channel::engine, nonsense);
          while (true) trainer.step();
        });
    const std::string number = std::to_string(from);
    for (const auto& failure : failures) {
      INFO(from << " to " << to << ": " << failure);
      CHECK(failure.rfind("process " + number + " (part " + number + ") on host host" + number + said, 0) == 0);
    }
  }
}

TEST_CASE("a process that speaks for another one's stage, or as process 0, ends the run", "[processes]") {
  for (const RemoteMessage& message :
       {RemoteMessage{StageId{0, 2}, NormDone{{0, 2}, {}}}, RemoteMessage{{}, RunEnds{}}, RemoteMessage{{}, NormDone{}}}) {
    const auto hub = MemoryHub::make(3);
    const auto failures = lead(
        hub, [](int) { return job_of({.layers = 3, .layout = {.pp = 3}}); },
        [&](Trainer& trainer) {
          trainer.step();
          hub->forge(1, 0, Channel::engine, encode(message));
          while (true) trainer.step();
        });
    for (const auto& failure : failures) CHECK(failure.rfind("process 1 (part 1) on host host1: a message", 0) == 0);
  }
}

TEST_CASE("answers that nobody asked for change nothing", "[processes]") {
  const auto hub = MemoryHub::make(2);
  const auto failures = lead(
      hub, [](int) { return job_of({.layout = {.pp = 2}}); },
      [&](Trainer& trainer) {
        trainer.step();
        // Nobody waits for these answers, so they must change nothing.
        hub->forge(1, 0, Channel::engine, encode({StageId{0, 1}, StatePiece{99, 0, 1, {1}}}));
        hub->forge(1, 0, Channel::engine, encode({StageId{0, 1}, Waiting{99, {0, 1}, "", 0, {}}}));
        hub->forge(1, 0, Channel::engine, encode({StageId{0, 1}, MemoryReport{99, {0, 1}, {}}}));
        hub->forge(0, 1, Channel::engine, encode({{}, WaitingLines{99, {}}}));
        trainer.step();
      });
  CHECK(failures == std::vector<std::string>(2));
}
