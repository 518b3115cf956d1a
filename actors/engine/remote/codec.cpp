#include "actors/engine/remote/codec.hpp"

#include <cstring>
#include <utility>

#include "actors/engine/remote/codec_values.hpp"

namespace pipetrain {
namespace {

using codec::get;
using codec::get_list;
using codec::put;
using codec::put_list;
using codec::Source;
using Body = decltype(RemoteMessage::body);

// --- the messages ---

void put(WireWriter& out, const StepInfo& step) {
  out.number(step.step);
  out.number(static_cast<std::int32_t>(step.microbatches));
  out.number(step.tokens);
  out.number(step.learning_rate);
  out.number(step.loss_scale);
  out.flag(step.kind == schedules::StepKind::evaluation);
  for (const auto& bytes : {step.content, step.progress}) {
    out.flag(bytes != nullptr);
    if (bytes) out.bytes(*bytes);
  }
}
void get(const Source& from, StepInfo& step) {
  step.step = from.count();
  step.microbatches = from.below(from.limits.microbatches + 1);
  step.tokens = from.finite();
  step.learning_rate = from.finite();
  step.loss_scale = from.finite();
  if (from.in.flag()) step.kind = schedules::StepKind::evaluation;
  for (auto* bytes : {&step.content, &step.progress}) {
    if (!from.in.flag()) continue;
    const auto read = from.in.bytes();
    *bytes = std::make_shared<const Bytes>(read.begin(), read.end());
  }
}

void put(WireWriter& out, const BeginStep& message) {
  put(out, message.step);
  out.flag(message.coming.has_value());
  if (message.coming) put(out, *message.coming);
}
void get(const Source& from, BeginStep& message) {
  get(from, message.step);
  if (from.in.flag()) get(from, message.coming.emplace());
}

void put(WireWriter& out, const GiveVerdict& message) {
  out.flag(message.verdict.apply);
  out.number(message.verdict.grad_scale);
  out.flag(message.verdict.confirms);
}
void get(const Source& from, GiveVerdict& message) {
  message.verdict.apply = from.in.flag();
  message.verdict.grad_scale = from.finite();
  message.verdict.confirms = from.in.flag();
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
  out.number(static_cast<std::int32_t>(message.part.rank));
  out.text(message.part.state);
  out.number(static_cast<std::uint64_t>(message.part.parameter));
  out.number(static_cast<std::uint64_t>(message.part.begin));
  out.number(static_cast<std::uint64_t>(message.part.elements));
}
void get(const Source& from, StateWanted& message) {
  message.number = from.count();
  message.part.rank = static_cast<int>(from.in.number<std::int32_t>());
  message.part.state = from.in.text();
  message.part.parameter = static_cast<std::size_t>(from.in.number<std::uint64_t>());
  message.part.begin = static_cast<std::size_t>(from.in.number<std::uint64_t>());
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
    WireReader::refuse("values beyond the end of a state");
  if (!bytes.empty()) std::memcpy(message.values.data(), bytes.data(), bytes.size());
}

void put(WireWriter& out, const SaveState& message) {
  out.number(message.number);
  out.text(message.where);
}
void get(const Source& from, SaveState& message) {
  message.number = from.count();
  message.where = from.in.text();
}

void put(WireWriter& out, const StateSaved& message) {
  out.number(message.number);
  out.text(message.report);
  out.flag(message.failure.has_value());
  if (message.failure) put(out, *message.failure);
}
void get(const Source& from, StateSaved& message) {
  message.stage = from.its_stage();
  message.number = from.count();
  message.report = from.in.text();
  if (from.in.flag()) get(from, message.failure.emplace());
}

void put(WireWriter& out, const NormDone& message) {
  out.list(message.result, [&](double value) { out.number(value); });
}
void get(const Source& from, NormDone& message) {
  message.stage = from.its_stage();
  message.result.resize(from.in.count(sizeof(double)));
  for (double& value : message.result) value = from.in.number<double>();  // the trainer handles a NaN
}

void put(WireWriter& out, const Signal& message) {
  out.number(static_cast<std::int32_t>(message.custom));
  out.number(static_cast<std::int32_t>(message.to_stage));
}
void get(const Source& from, Signal& message) {
  message.stage = from.its_stage();
  message.custom = from.below(from.limits.customs);
  message.to_stage = from.below(from.limits.parts.pp);
}

void put(WireWriter& out, const Signalled& message) { out.number(static_cast<std::int32_t>(message.custom)); }
void get(const Source& from, Signalled& message) { message.custom = from.below(from.limits.customs); }

void put(WireWriter& out, const StepDone& message) {
  put_list(out, message.trace.actions);
  out.list(message.devices, [&](const DeviceActions& actions) { put_list(out, actions); });
  put(out, message.log);
}
void get(const Source& from, StepDone& message) {
  message.trace.stage = from.its_stage();
  get_list(from, message.trace.actions, codec::action_bytes + codec::times_bytes);
  const std::size_t devices = from.in.count(sizeof(std::uint32_t));
  if (devices > codec::most_devices_a_stage) WireReader::refuse("more devices than a stage can have");
  message.devices.resize(devices);
  for (DeviceActions& actions : message.devices) get_list(from, actions, codec::action_bytes + codec::times_bytes + 8);
  get(from, message.log);
}

void put(WireWriter& out, const Logged& message) { put(out, message.log); }
void get(const Source& from, Logged& message) {
  message.stage = from.its_stage();
  get(from, message.log);
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
  put_list(out, message.running);
}
void get(const Source& from, Waiting& message) {
  message.report = from.count();
  message.stage = from.its_stage();
  message.line = from.in.text();
  message.completed = from.in.number<std::int64_t>();
  get_list(from, message.running, codec::action_bytes);
}

void put(WireWriter& out, const MemoryReport& message) {
  out.number(message.report);
  put_list(out, message.ranks);
}
void get(const Source& from, MemoryReport& message) {
  message.report = from.count();
  message.stage = from.its_stage();
  get_list(from, message.ranks, 9 * sizeof(std::uint64_t));
}

void put(WireWriter& out, const WaitingLines& message) {
  out.number(message.number);
  out.list(message.lines, [&](const std::string& line) { out.text(line); });
}
void get(const Source& from, WaitingLines& message) {
  message.number = from.count();
  const std::size_t lines = from.in.count(sizeof(std::uint32_t));
  const MeshShape& parts = from.limits.parts;
  if (lines > static_cast<std::size_t>(parts.dp) * static_cast<std::size_t>(parts.pp) * static_cast<std::size_t>(parts.part))
    WireReader::refuse("more lines than the run has stages");
  message.lines.resize(lines);
  for (std::string& line : message.lines) line = from.in.text();
}

// --- the message's type: its index in the variant ---

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
