// Writes and reads the values that the engine's messages consist of; codec.cpp has the messages. A message names its fields
// once, in fields(), in the order of its bytes: a FieldWriter writes them, and a FieldReader reads and checks them.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "actors/engine/remote/codec.hpp"

namespace pipetrain::codec {

using TimePoint = std::chrono::steady_clock::time_point;

// The parameter of fields(): a value of this type, constant where it is written.
template <class Value, class Type>
concept Of = std::same_as<std::remove_const_t<Value>, Type>;

// The first number beyond those that exist in the run.
using Bound = int (*)(const CodecLimits&);
inline int replicas(const CodecLimits& limits) { return limits.parts.dp; }
inline int stages(const CodecLimits& limits) { return limits.parts.pp; }
inline int parts(const CodecLimits& limits) { return limits.parts.part; }
inline int microbatches(const CodecLimits& limits) { return limits.microbatches; }
inline int customs(const CodecLimits& limits) { return limits.customs; }

// The most elements of a list, beyond what its bytes can hold; null: no such limit. `why` is what a longer list holds.
struct ListLimit {
  Bound most = nullptr;
  const char* why = "";
};

class FieldWriter {
 public:
  static constexpr bool reads = false;
  explicit FieldWriter(WireWriter& to) : out(to) {}

  template <WireNumber Number>
  void number(Number value) {
    out.number(value);
  }
  void count(std::int64_t value) { out.number(value); }
  void finite(double value) { out.number(value); }
  void size(std::size_t value) { out.number(static_cast<std::uint64_t>(value)); }
  void whole(int value) { out.number(static_cast<std::int32_t>(value)); }
  void below(int value, Bound, int = 0) { whole(value); }
  template <class Enum>
  void choice(Enum value, Enum) {
    out.number(value);
  }
  void flag(bool value) { out.flag(value); }
  void text(const std::string& value) { out.text(value); }
  void shared_bytes(const std::shared_ptr<const Bytes>& value) {
    out.flag(value != nullptr);
    if (value) out.bytes(*value);
  }
  template <class Value>
  void optional(const std::optional<Value>& value) {
    out.flag(value.has_value());
    if (value) fields(*this, *value);
  }
  template <class Element, class Each>
  void list(const std::vector<Element>& list, std::size_t, Each each, const ListLimit& = {}) {
    out.list(list, each);
  }
  void its_stage(const StageId&) {}  // stands in the message's header

  WireWriter& out;
};

class FieldReader {
 public:
  static constexpr bool reads = true;
  FieldReader(WireReader& from, const CodecLimits& run_limits) : in(from), limits(run_limits) {}

  template <WireNumber Number>
  void number(Number& value) {
    value = in.number<Number>();
  }
  // Reads a number that counts something and so is not negative.
  void count(std::int64_t& value) {
    number(value);
    if (value < 0) WireReader::refuse("a negative count");
  }
  void finite(double& value) {
    number(value);
    if (!std::isfinite(value)) WireReader::refuse("a number that is not finite");
  }
  void size(std::size_t& value) { value = static_cast<std::size_t>(in.number<std::uint64_t>()); }
  void whole(int& value) { value = static_cast<int>(in.number<std::int32_t>()); }
  // Reads a number from `least` to below the bound.
  void below(int& value, Bound bound, int least = 0) {
    whole(value);
    if (value < least || value >= bound(limits)) WireReader::refuse("a number outside the run");
  }
  template <class Enum>
  void choice(Enum& value, Enum last) {
    value = in.choice(last);
  }
  void flag(bool& value) { value = in.flag(); }
  void text(std::string& value) { value = in.text(); }
  void shared_bytes(std::shared_ptr<const Bytes>& value) {
    if (!in.flag()) return;
    const auto read = in.bytes();
    value = std::make_shared<const Bytes>(read.begin(), read.end());
  }
  template <class Value>
  void optional(std::optional<Value>& value) {
    if (in.flag()) fields(*this, value.emplace());
  }
  // An element takes at least `least_bytes`.
  template <class Element, class Each>
  void list(std::vector<Element>& list, std::size_t least_bytes, Each each, const ListLimit& limit = {}) {
    const std::size_t elements = in.count(least_bytes);
    if (limit.most && elements > static_cast<std::size_t>(limit.most(limits))) WireReader::refuse(limit.why);
    list.resize(elements);
    for (Element& element : list) each(element);
  }
  void its_stage(StageId& value) {
    if (!stage) WireReader::refuse("no stage where it needs one");
    value = *stage;
  }

  WireReader& in;
  const CodecLimits& limits;
  std::optional<StageId> stage;  // from the message's header
};

void fields(auto& wire, Of<StageId> auto& id) {
  wire.below(id.replica, replicas);
  wire.below(id.stage, stages);
  wire.below(id.part, parts);
}

void fields(auto& wire, Of<Setting> auto& setting) {
  wire.text(setting.name);
  wire.text(setting.value);
}

void fields(auto& wire, Of<Failure> auto& failure) {
  wire.choice(failure.kind, ErrorKind::internal);
  wire.text(failure.text);
  wire.text(failure.where);
  wire.flag(failure.names_place);
  wire.flag(failure.process_lost);
  wire.optional(failure.setting);
}

template <class Wire>
void fields(Wire& wire, Of<schedules::Action> auto& action) {
  wire.choice(action.kind, schedules::ActionKind::preview);
  wire.number(action.chunk);
  if constexpr (Wire::reads)
    if (action.chunk < 0 || action.chunk >= wire.limits.chunks) WireReader::refuse("a chunk that is not in the plan");
  wire.below(action.microbatch, is_custom(action.kind) ? customs : microbatches,
             is_custom(action.kind) || has_microbatch(action.kind) ? 0 : -1);
}

// Encoded as nanoseconds. Sums and differences of the values that are accepted cannot overflow.
template <class Wire>
void fields(Wire& wire, Of<TimePoint> auto& time) {
  constexpr std::int64_t most = std::int64_t{1} << 60;
  std::int64_t nanoseconds = std::chrono::nanoseconds(time.time_since_epoch()).count();
  wire.number(nanoseconds);
  if constexpr (Wire::reads) {
    if (nanoseconds > most || nanoseconds < -most) WireReader::refuse("a time out of range");
    time = TimePoint(std::chrono::nanoseconds(nanoseconds));
  }
}

void fields(auto& wire, Of<schedules::StageLog> auto& log) {
  fields(wire, log.base);
  wire.text(log.bytes);
}

void fields(auto& wire, Of<ActionTimes> auto& times) {
  fields(wire, times.start);
  fields(wire, times.end);
}

inline constexpr int most_devices_a_stage = 4096;
inline constexpr std::size_t action_bytes = 1 + 2 + 4, times_bytes = 16;

void fields(auto& wire, Of<TracedAction> auto& traced) {
  fields(wire, traced.action);
  fields(wire, traced.times);
}

void fields(auto& wire, Of<DeviceAction> auto& one) {
  fields(wire, one.action);
  fields(wire, one.times);
  fields(wire, one.issued);
}

void fields(auto& wire, Of<MemoryUse> auto& use) {
  for (auto* const bytes : {&use.parameters, &use.gradients, &use.optimizer, &use.activations, &use.queues, &use.workspace,
                            &use.host, &use.disk, &use.snapshot, &use.copies})
    wire.size(*bytes);
}

// A list whose elements have fields of their own, each of at least least_bytes.
void list_of_fields(auto& wire, auto& list, std::size_t least_bytes) {
  wire.list(list, least_bytes, [&](auto& element) { fields(wire, element); });
}

}  // namespace pipetrain::codec
