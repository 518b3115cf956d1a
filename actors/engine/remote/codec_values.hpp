// Encodes and decodes the values that the engine's messages consist of; codec.cpp has the messages.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "actors/engine/remote/codec.hpp"

namespace pipetrain::codec {

using TimePoint = std::chrono::steady_clock::time_point;

// The message that is being read, and the stage from its header.
struct Source {
  WireReader& in;
  const CodecLimits& limits;
  std::optional<StageId> stage;

  // Reads a number in [least, end).
  int below(int end, int least = 0) const {
    const auto value = in.number<std::int32_t>();
    if (value < least || value >= end) WireReader::refuse("a number outside the run");
    return value;
  }
  // Reads a number that counts something and so is not negative.
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
    if (!stage) WireReader::refuse("no stage where it needs one");
    return *stage;
  }
};

inline void put(WireWriter& out, const StageId& id) {
  for (const int number : {id.replica, id.stage, id.part}) out.number(static_cast<std::int32_t>(number));
}
inline void get(const Source& from, StageId& id) {
  id = {from.below(from.limits.parts.dp), from.below(from.limits.parts.pp), from.below(from.limits.parts.part)};
}

inline void put(WireWriter& out, const Failure& failure) {
  out.number(failure.kind);
  out.text(failure.text);
  out.text(failure.where);
  out.flag(failure.names_place);
  out.flag(failure.process_lost);
  out.flag(failure.setting.has_value());
  if (!failure.setting) return;
  out.text(failure.setting->name);
  out.text(failure.setting->value);
}
inline void get(const Source& from, Failure& failure) {
  failure.kind = from.in.choice(ErrorKind::internal);
  failure.text = from.in.text();
  failure.where = from.in.text();
  failure.names_place = from.in.flag();
  failure.process_lost = from.in.flag();
  if (!from.in.flag()) return;
  failure.setting.emplace();
  failure.setting->name = from.in.text();
  failure.setting->value = from.in.text();
}

inline void put(WireWriter& out, const schedules::Action& action) {
  out.number(action.kind);
  out.number(action.chunk);
  out.number(action.microbatch);
}
inline void get(const Source& from, schedules::Action& action) {
  action.kind = from.in.choice(schedules::ActionKind::preview);
  action.chunk = from.in.number<std::int16_t>();
  if (action.chunk < 0 || action.chunk >= from.limits.chunks) WireReader::refuse("a chunk that is not in the plan");
  if (is_custom(action.kind)) {
    action.microbatch = from.below(from.limits.customs);
  } else {
    action.microbatch = from.below(from.limits.microbatches, has_microbatch(action.kind) ? 0 : -1);
  }
}

// Encoded as nanoseconds. Sums and differences of the values that are accepted cannot overflow.
inline void put(WireWriter& out, TimePoint time) {
  out.number(static_cast<std::int64_t>(std::chrono::nanoseconds(time.time_since_epoch()).count()));
}
inline void get(const Source& from, TimePoint& time) {
  constexpr std::int64_t most = std::int64_t{1} << 60;
  const auto nanoseconds = from.in.number<std::int64_t>();
  if (nanoseconds > most || nanoseconds < -most) WireReader::refuse("a time out of range");
  time = TimePoint(std::chrono::nanoseconds(nanoseconds));
}

inline void put(WireWriter& out, const schedules::StageLog& log) {
  put(out, log.base);
  out.text(log.bytes);
}
inline void get(const Source& from, schedules::StageLog& log) {
  get(from, log.base);
  log.bytes = from.in.text();
}

inline void put(WireWriter& out, const ActionTimes& times) {
  put(out, times.start);
  put(out, times.end);
}
inline void get(const Source& from, ActionTimes& times) {
  get(from, times.start);
  get(from, times.end);
}

inline constexpr std::size_t most_devices_a_stage = 4096;
inline constexpr std::size_t action_bytes = 1 + 2 + 4, times_bytes = 16;

inline void put(WireWriter& out, const TracedAction& traced) {
  put(out, traced.action);
  put(out, traced.times);
}
inline void get(const Source& from, TracedAction& traced) {
  get(from, traced.action);
  get(from, traced.times);
}

inline void put(WireWriter& out, const DeviceAction& one) {
  put(out, one.action);
  put(out, one.times);
  put(out, one.issued);
}
inline void get(const Source& from, DeviceAction& one) {
  get(from, one.action);
  get(from, one.times);
  get(from, one.issued);
}

inline void put(WireWriter& out, const MemoryUse& use) {
  for (const std::size_t bytes : {use.parameters, use.gradients, use.optimizer, use.activations, use.queues, use.workspace,
                                  use.host, use.disk, use.snapshot, use.copies})
    out.number(static_cast<std::uint64_t>(bytes));
}
inline void get(const Source& from, MemoryUse& use) {
  for (std::size_t* bytes : {&use.parameters, &use.gradients, &use.optimizer, &use.activations, &use.queues, &use.workspace,
                             &use.host, &use.disk, &use.snapshot, &use.copies})
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

}  // namespace pipetrain::codec
