#include "actors/engine/remote/codec.hpp"

#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

namespace pipetrain {
namespace {

using schedules::Action;
using schedules::ActionKind;
using Body = decltype(RemoteMessage::body);
using TimePoint = std::chrono::steady_clock::time_point;

// The message being read, and what is known of it: its stage stands in front.
struct Source {
  WireReader& in;
  const CodecLimits& limits;
  std::optional<StageId> stage;

  // A number in [least, end).
  int below(int end, int least = 0) const {
    const auto value = in.number<std::int32_t>();
    if (value < least || value >= end) WireReader::refuse("a number outside the run");
    return value;
  }
  // One that counts something.
  std::int64_t count() const {
    const auto value = in.number<std::int64_t>();
    if (value < 0) WireReader::refuse("a negative count");
    return value;
  }
  double finite() const {
    const auto value = in.number<double>();
    if (!std::isfinite(value)) WireReader::refuse("a number that is not finite");
    return value;
  }
  const StageId& its_stage() const {
    if (!stage) WireReader::refuse("nothing of the stage that it should be of");
    return *stage;
  }
};

// --- plain values ---

void put(WireWriter& out, const StageId& id) {
  for (const int number : {id.replica, id.stage, id.part}) out.number(static_cast<std::int32_t>(number));
}
void get(const Source& from, StageId& id) {
  id = {from.below(from.limits.parts.dp), from.below(from.limits.parts.pp), from.below(from.limits.parts.tp)};
}

void put(WireWriter& out, const Failure& failure) {
  out.number(failure.kind);
  out.text(failure.text);
  out.text(failure.where);
  out.flag(failure.names_place);
  out.flag(failure.setting.has_value());
  if (!failure.setting) return;
  out.text(failure.setting->name);
  out.text(failure.setting->value);
}
void get(const Source& from, Failure& failure) {
  failure.kind = from.in.choice(ErrorKind::internal);
  failure.text = from.in.text();
  failure.where = from.in.text();
  failure.names_place = from.in.flag();
  if (!from.in.flag()) return;
  failure.setting.emplace();
  failure.setting->name = from.in.text();
  failure.setting->value = from.in.text();
}

void put(WireWriter& out, const Action& action) {
  out.number(action.kind);
  out.number(action.chunk);
  out.number(action.microbatch);
}
void get(const Source& from, Action& action) {
  action.kind = from.in.choice(ActionKind::optimizer);
  action.chunk = from.in.number<std::int16_t>();
  if (action.chunk < 0 || action.chunk >= from.limits.chunks) WireReader::refuse("a chunk that the plan has not");
  action.microbatch = from.below(from.limits.microbatches, is_compute(action.kind) ? 0 : -1);
}

// As nanoseconds; the sums and differences of those that are let in cannot overflow.
void put(WireWriter& out, TimePoint time) {
  out.number(static_cast<std::int64_t>(std::chrono::nanoseconds(time.time_since_epoch()).count()));
}
void get(const Source& from, TimePoint& time) {
  constexpr std::int64_t most = std::int64_t{1} << 60;
  const auto nanoseconds = from.in.number<std::int64_t>();
  if (nanoseconds > most || nanoseconds < -most) WireReader::refuse("a time that no clock shows");
  time = TimePoint(std::chrono::nanoseconds(nanoseconds));
}

void put(WireWriter& out, const ActionTimes& times) {
  put(out, times.start);
  put(out, times.end);
}
void get(const Source& from, ActionTimes& times) {
  get(from, times.start);
  get(from, times.end);
}

constexpr std::size_t most_devices_a_stage = 4096;
constexpr std::size_t action_bytes = 1 + 2 + 4, times_bytes = 16;

void put(WireWriter& out, const TracedAction& traced) {
  put(out, traced.action);
  put(out, traced.times);
}
void get(const Source& from, TracedAction& traced) {
  get(from, traced.action);
  get(from, traced.times);
}

void put(WireWriter& out, const DeviceAction& one) {
  put(out, one.action);
  put(out, one.times);
  put(out, one.issued);
}
void get(const Source& from, DeviceAction& one) {
  get(from, one.action);
  get(from, one.times);
  get(from, one.issued);
}

void put(WireWriter& out, const MemoryUse& use) {
  for (const std::size_t bytes : {use.parameters, use.gradients, use.optimizer, use.activations, use.queues, use.workspace})
    out.number(static_cast<std::uint64_t>(bytes));
}
void get(const Source& from, MemoryUse& use) {
  for (std::size_t* bytes : {&use.parameters, &use.gradients, &use.optimizer, &use.activations, &use.queues, &use.workspace})
    *bytes = static_cast<std::size_t>(from.in.number<std::uint64_t>());
}

template <class Element>
void put_list(WireWriter& out, const std::vector<Element>& list) {
  out.list(list, [&](const Element& element) { put(out, element); });
}
template <class Element>
void get_list(const Source& from, std::vector<Element>& list, std::size_t least_bytes) {
  list.resize(from.in.count(least_bytes));
  for (Element& element : list) get(from, element);
}

// --- the messages ---

void put(WireWriter& out, const BeginStep& message) {
  out.number(message.step.step);
  out.number(static_cast<std::int32_t>(message.step.microbatches));
  out.number(message.step.tokens);
  out.number(message.step.learning_rate);
}
void get(const Source& from, BeginStep& message) {
  message.step.step = from.count();
  message.step.microbatches = from.below(from.limits.microbatches + 1);
  message.step.tokens = from.finite();
  message.step.learning_rate = from.finite();
}

void put(WireWriter& out, const GiveVerdict& message) {
  out.flag(message.verdict.apply);
  out.number(message.verdict.grad_scale);
}
void get(const Source& from, GiveVerdict& message) {
  message.verdict.apply = from.in.flag();
  message.verdict.grad_scale = from.finite();
}

void put(WireWriter& out, const Abort& message) { put(out, message.cause); }
void get(const Source& from, Abort& message) { get(from, message.cause); }
void put(WireWriter& out, const Failed& message) { put(out, message.cause); }
void get(const Source& from, Failed& message) { get(from, message.cause); }
void put(WireWriter& out, const ProcessFailed& message) { put(out, message.cause); }
void get(const Source& from, ProcessFailed& message) { get(from, message.cause); }

void put(WireWriter& out, const ReportWaiting& message) { out.number(message.report); }
void get(const Source& from, ReportWaiting& message) { message.report = from.count(); }
void put(WireWriter& out, const ReportMemory& message) { out.number(message.report); }
void get(const Source& from, ReportMemory& message) { message.report = from.count(); }
void put(WireWriter& out, const WaitingWanted& message) { out.number(message.number); }
void get(const Source& from, WaitingWanted& message) { message.number = from.count(); }
void put(WireWriter&, const RunEnds&) {}
void get(const Source&, RunEnds&) {}

void put(WireWriter& out, const StateWanted& message) {
  out.number(message.number);
  out.number(static_cast<std::int32_t>(message.part.tp_rank));
  out.text(message.part.state);
  out.number(static_cast<std::uint64_t>(message.part.parameter));
  out.number(static_cast<std::uint64_t>(message.part.elements));
}
void get(const Source& from, StateWanted& message) {
  message.number = from.count();
  message.part.tp_rank = static_cast<int>(from.in.number<std::int32_t>());
  message.part.state = from.in.text();
  message.part.parameter = static_cast<std::size_t>(from.in.number<std::uint64_t>());
  message.part.elements = static_cast<std::size_t>(from.in.number<std::uint64_t>());
}

void put(WireWriter& out, const StatePiece& message) {
  out.number(message.number);
  out.number(message.offset);
  out.number(message.total);
  out.bytes(std::as_bytes(std::span(message.values)));
}
void get(const Source& from, StatePiece& message) {
  message.number = from.count();
  message.offset = from.in.number<std::uint64_t>();
  message.total = from.in.number<std::uint64_t>();
  const auto bytes = from.in.bytes();
  if (bytes.size() % sizeof(float) != 0) WireReader::refuse("a part of a value");
  message.values.resize(bytes.size() / sizeof(float));
  if (message.offset > message.total || message.values.size() > message.total - message.offset)
    WireReader::refuse("values beyond the end of what they are of");
  if (!bytes.empty()) std::memcpy(message.values.data(), bytes.data(), bytes.size());
}

void put(WireWriter& out, const NormDone& message) {
  out.list(message.result, [&](double value) { out.number(value); });
}
void get(const Source& from, NormDone& message) {
  message.stage = from.its_stage();
  message.result.resize(from.in.count(sizeof(double)));
  for (double& value : message.result) value = from.in.number<double>();  // a NaN is the trainer's to find
}

void put(WireWriter& out, const StepDone& message) {
  put_list(out, message.trace.actions);
  out.list(message.devices, [&](const DeviceActions& actions) { put_list(out, actions); });
}
void get(const Source& from, StepDone& message) {
  message.trace.stage = from.its_stage();
  get_list(from, message.trace.actions, action_bytes + times_bytes);
  const std::size_t devices = from.in.count(sizeof(std::uint32_t));
  if (devices > most_devices_a_stage) WireReader::refuse("more devices than a stage can have");
  message.devices.resize(devices);
  for (DeviceActions& actions : message.devices) get_list(from, actions, action_bytes + times_bytes + 8);
}

void put(WireWriter& out, const Stopped& message) { out.text(message.line); }
void get(const Source& from, Stopped& message) {
  message.stage = from.its_stage();
  message.line = from.in.text();
}

void put(WireWriter& out, const Waiting& message) {
  out.number(message.report);
  out.text(message.line);
  out.number(message.completed);
}
void get(const Source& from, Waiting& message) {
  message.report = from.count();
  message.stage = from.its_stage();
  message.line = from.in.text();
  message.completed = from.in.number<std::int64_t>();
}

void put(WireWriter& out, const MemoryReport& message) {
  out.number(message.report);
  put_list(out, message.ranks);
}
void get(const Source& from, MemoryReport& message) {
  message.report = from.count();
  message.stage = from.its_stage();
  get_list(from, message.ranks, 6 * sizeof(std::uint64_t));
}

void put(WireWriter& out, const WaitingLines& message) {
  out.number(message.number);
  out.list(message.lines, [&](const std::string& line) { out.text(line); });
}
void get(const Source& from, WaitingLines& message) {
  message.number = from.count();
  const std::size_t lines = from.in.count(sizeof(std::uint32_t));
  const MeshShape& parts = from.limits.parts;
  if (lines > static_cast<std::size_t>(parts.dp) * static_cast<std::size_t>(parts.pp) * static_cast<std::size_t>(parts.tp))
    WireReader::refuse("more lines than the run has stages");
  message.lines.resize(lines);
  for (std::string& line : message.lines) line = from.in.text();
}

// --- which message it is: its place in the variant ---

template <std::size_t place = 0>
Body get_body(std::size_t wanted, const Source& from) {
  if constexpr (place < std::variant_size_v<Body>) {
    if (place != wanted) return get_body<place + 1>(wanted, from);
    std::variant_alternative_t<place, Body> message{};
    get(from, message);
    return message;
  } else {
    WireReader::refuse("a kind that does not exist");
  }
}

}  // namespace

Bytes encode(const RemoteMessage& message) {
  WireWriter out;
  out.number(static_cast<std::uint8_t>(message.body.index()));
  out.flag(message.stage.has_value());
  if (message.stage) put(out, *message.stage);
  std::visit([&](const auto& body) { put(out, body); }, message.body);
  return std::move(out).data();
}

RemoteMessage decode(std::span<const std::byte> bytes, const CodecLimits& limits) {
  WireReader in(bytes);
  const auto kind = in.number<std::uint8_t>();
  Source from{in, limits, {}};
  if (in.flag()) get(from, from.stage.emplace());
  RemoteMessage message{from.stage, get_body(kind, from)};
  in.end();
  return message;
}

}  // namespace pipetrain
