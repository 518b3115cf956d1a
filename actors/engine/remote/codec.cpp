#include "actors/engine/remote/codec.hpp"

#include <cstring>
#include <utility>

#include "actors/engine/remote/codec_values.hpp"

namespace pipetrain {

namespace codec {

// --- the messages ---

template <class Wire>
void fields(Wire& wire, Of<StepInfo> auto& step) {
  wire.count(step.step);
  wire.below(step.microbatches, [](const CodecLimits& limits) { return limits.microbatches + 1; });
  wire.finite(step.tokens);
  wire.finite(step.learning_rate);
  wire.finite(step.loss_scale);
  wire.finite(step.sequences);
  bool evaluates = step.evaluates();
  wire.flag(evaluates);
  if constexpr (Wire::reads) step.kind = evaluates ? schedules::StepKind::evaluation : schedules::StepKind::training;
  wire.shared_bytes(step.content);
  wire.shared_bytes(step.progress);
  wire.count(step.frozen_after);
  wire.finite(step.gradient_factor);
}

void fields(auto& wire, Of<BeginStep> auto& message) {
  fields(wire, message.step);
  wire.optional(message.coming);
}

void fields(auto& wire, Of<GiveVerdict> auto& message) {
  wire.flag(message.verdict.apply);
  wire.finite(message.verdict.grad_scale);
  wire.flag(message.verdict.confirms);
}

void fields(auto& wire, Of<Abort> auto& message) { fields(wire, message.cause); }
void fields(auto& wire, Of<Failed> auto& message) { fields(wire, message.cause); }
void fields(auto& wire, Of<ProcessFailed> auto& message) { fields(wire, message.cause); }
void fields(auto& wire, Of<ReportWaiting> auto& message) { wire.count(message.report); }
void fields(auto& wire, Of<ReportMemory> auto& message) { wire.count(message.report); }
void fields(auto& wire, Of<WaitingWanted> auto& message) { wire.count(message.number); }
void fields(auto&, Of<RunEnds> auto&) {}

void fields(auto& wire, Of<StateWanted> auto& message) {
  wire.count(message.number);
  wire.whole(message.part.rank);
  wire.text(message.part.state);
  wire.size(message.part.parameter);
  wire.size(message.part.begin);
  wire.size(message.part.elements);
}

template <class Wire>
void fields(Wire& wire, Of<StatePiece> auto& message) {
  wire.count(message.number);
  wire.number(message.offset);
  wire.number(message.total);
  if constexpr (Wire::reads) {
    const auto bytes = wire.in.bytes();
    if (bytes.size() % sizeof(float) != 0) WireReader::refuse("a part of a value");
    message.values.resize(bytes.size() / sizeof(float));
    if (message.offset > message.total || message.values.size() > message.total - message.offset)
      WireReader::refuse("values beyond the end of a state");
    if (!bytes.empty()) std::memcpy(message.values.data(), bytes.data(), bytes.size());
  } else {
    wire.out.bytes(std::as_bytes(std::span(message.values)));
  }
}

void fields(auto& wire, Of<SaveState> auto& message) {
  wire.count(message.number);
  wire.text(message.where);
}

void fields(auto& wire, Of<StateSaved> auto& message) {
  wire.its_stage(message.stage);
  wire.count(message.number);
  wire.text(message.report);
  wire.optional(message.failure);
}

void fields(auto& wire, Of<NormDone> auto& message) {
  wire.its_stage(message.stage);
  wire.list(message.result, sizeof(double), [&](auto& value) { wire.number(value); });  // the trainer handles a NaN
}

void fields(auto& wire, Of<Signal> auto& message) {
  wire.its_stage(message.stage);
  wire.below(message.custom, customs);
  wire.below(message.to_stage, stages);
}

void fields(auto& wire, Of<Signalled> auto& message) { wire.below(message.custom, customs); }

void fields(auto& wire, Of<StepDone> auto& message) {
  wire.its_stage(message.trace.stage);
  list_of_fields(wire, message.trace.actions, action_bytes + times_bytes);
  wire.list(message.devices, sizeof(std::uint32_t),
            [&](auto& actions) { list_of_fields(wire, actions, action_bytes + times_bytes + 8); },
            {[](const CodecLimits&) { return most_devices_a_stage; }, "more devices than a stage can have"});
  fields(wire, message.log);
}

void fields(auto& wire, Of<Logged> auto& message) {
  wire.its_stage(message.stage);
  fields(wire, message.log);
}

void fields(auto& wire, Of<Stopped> auto& message) {
  wire.its_stage(message.stage);
  wire.text(message.line);
}

void fields(auto& wire, Of<Waiting> auto& message) {
  wire.count(message.report);
  wire.its_stage(message.stage);
  wire.text(message.line);
  wire.number(message.completed);
  list_of_fields(wire, message.running, action_bytes);
}

void fields(auto& wire, Of<MemoryReport> auto& message) {
  wire.count(message.report);
  wire.its_stage(message.stage);
  list_of_fields(wire, message.ranks, 9 * sizeof(std::uint64_t));
}

void fields(auto& wire, Of<WaitingLines> auto& message) {
  wire.count(message.number);
  const Bound stages = [](const CodecLimits& limits) { return limits.parts.dp * limits.parts.pp * limits.parts.part; };
  wire.list(message.lines, sizeof(std::uint32_t), [&](auto& line) { wire.text(line); },
            {stages, "more lines than the run has stages"});
}

}  // namespace codec

namespace {

// --- the message's type: its index in the variant ---

using Body = decltype(RemoteMessage::body);

template <std::size_t place = 0>
Body read_body(std::size_t wanted, codec::FieldReader& from) {
  if constexpr (place < std::variant_size_v<Body>) {
    if (place != wanted) return read_body<place + 1>(wanted, from);
    std::variant_alternative_t<place, Body> message{};
    codec::fields(from, message);
    return message;
  } else {
    WireReader::refuse("a kind that does not exist");
  }
}

}  // namespace

Bytes encode(const RemoteMessage& message) {
  WireWriter out;
  codec::FieldWriter writer(out);
  writer.number(static_cast<std::uint8_t>(message.body.index()));
  writer.optional(message.stage);
  std::visit([&](const auto& body) { codec::fields(writer, body); }, message.body);
  return std::move(out).data();
}

RemoteMessage decode(std::span<const std::byte> bytes, const CodecLimits& limits) {
  WireReader in(bytes);
  const auto kind = in.number<std::uint8_t>();
  codec::FieldReader from(in, limits);
  from.optional(from.stage);
  RemoteMessage message{from.stage, read_body(kind, from)};
  in.end();
  return message;
}

}  // namespace pipetrain
