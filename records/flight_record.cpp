#include "records/flight_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "core/wire.hpp"
#include "schedules/plan/plan_text.hpp"

namespace pipetrain {

using schedules::ActionKind;
using schedules::RecordedRun;
using schedules::RecordedStep;

namespace {

constexpr std::string_view magic = "pipetrain record";
constexpr std::uint32_t version = 1;
constexpr std::uint64_t window_bytes = std::uint64_t{1} << 20;  // read at once
constexpr std::size_t part_head_bytes = 1 + sizeof(std::uint32_t) + sizeof(std::uint64_t);
constexpr char head_kind = 'H', membership_kind = 'M', step_kind = 'S', end_kind = 'E';
// The limit on the stages of all replicas and parts, and on microbatches over their chunks, for which replaying needs
// memory: about 10 MB, whatever a damaged head claims.
constexpr int most_logs = 4096;
constexpr std::int64_t most_work = 1 << 20;

bool can_be_replayed(const schedules::RecordedRun& run) {
  const std::int64_t pipelines = std::int64_t{run.replicas} * run.parts;
  const auto& placement = run.plan.placement;
  return pipelines * placement.stages() <= most_logs &&
         pipelines * placement.virtual_stages() * run.plan.microbatches <= most_work;
}

void append(std::string& out, const Bytes& bytes) { out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size()); }

std::string part(char kind, const Bytes& contents) {
  WireWriter head;
  head.number(kind);
  head.number(static_cast<std::uint32_t>(contents.size()));
  head.number(checksum(contents.data(), contents.size()));
  std::string bytes;
  append(bytes, head.data());
  append(bytes, contents);
  return bytes;
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

int read_size(WireReader& in, int most) {
  const auto value = in.number<std::int32_t>();
  if (value < 1 || value > most) WireReader::refuse("an impossible size");
  return value;
}

schedules::ChunkNeeds read_needs(WireReader& in) {
  schedules::ChunkNeeds needs;
  for (int* const member : {&needs.activation_slots, &needs.gradient_slots, &needs.target_slots}) {
    *member = in.number<std::int32_t>();
    if (*member < 0) WireReader::refuse("a negative number of slots");
  }
  return needs;
}

FlightRecordHead head_of(WireReader& in, const std::string& file) {
  FlightRecordHead head;
  head.title = in.text();
  head.run.plan = schedules::parse_plan(std::string_view(in.text()), file);
  head.run.order =
      in.choice(schedules::Order::ready) == schedules::Order::ready ? schedules::Order::ready : schedules::Order::planned;
  if (head.run.order == schedules::Order::ready && head.run.plan.ready_rule == schedules::ReadyRule::none)
    WireReader::refuse("an order that its plan has no rule for");
  head.run.life.activation = in.choice(ActionKind::weight_grad);
  head.run.life.gradient = in.choice(ActionKind::weight_grad);
  head.run.replicas = read_size(in, most_logs);
  head.run.parts = read_size(in, most_logs);
  head.run.run_ahead = read_size(in, most_logs);
  const auto& placement = head.run.plan.placement;
  if (!can_be_replayed(head.run)) WireReader::refuse("more stages than can be replayed");
  head.run.needs.resize(static_cast<std::size_t>(placement.stages()));
  for (auto& stage : head.run.needs)
    for (int chunk = 0; chunk < placement.chunks(); ++chunk) stage.chunks.push_back(read_needs(in));
  return head;
}

void read_membership_of(WireReader& in, RecordedRun& run) {
  run.membership = in.number<std::int32_t>();
  if (run.membership < 2) WireReader::refuse("an impossible membership");
  run.process_of.resize(in.count(sizeof(std::int32_t)));
  if (!run.process_of.empty() && std::ssize(run.process_of) != run.logs()) WireReader::refuse("another number of stages");
  for (int& process : run.process_of) {
    process = in.number<std::int32_t>();
    if (process < 0) WireReader::refuse("an impossible process");
  }
}

// True where both have the same stages, which may be divided over processes in other ways.
bool have_same_pipeline(const RecordedRun& one, const RecordedRun& other) {
  return one.plan.placement == other.plan.placement && one.plan.stages == other.plan.stages && one.order == other.order &&
         one.replicas == other.replicas;
}

RecordedStep recorded_step(WireReader& in) {
  RecordedStep step;
  step.step = in.number<std::int64_t>();
  step.kind = in.flag() ? schedules::StepKind::evaluation : schedules::StepKind::training;
  step.failed = in.flag();
  step.logs.resize(in.count(sizeof(std::int64_t) + sizeof(std::uint32_t)));
  for (schedules::StageLog& log : step.logs) {
    const auto base = in.number<std::int64_t>();
    log.base = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(base));
    log.bytes = in.text();
  }
  in.end();
  return step;
}

void write_run(const FlightRecordHead& head, WireWriter& out) {
  if (!can_be_replayed(head.run))
    throw Error(
        ErrorKind::input, {"record", ""},
        fmt::format("this run is larger than what can be replayed, {} stages of all replicas and {} microbatches over their "
                    "chunks; leave it out, or record fewer replicas",
                    most_logs, most_work));
  const RecordedRun& run = head.run;
  out.text(head.title);
  out.text(to_text(run.plan));
  out.number(run.order);
  out.number(run.life.activation);
  out.number(run.life.gradient);
  for (const int size : {run.replicas, run.parts, run.run_ahead}) out.number(static_cast<std::int32_t>(size));
  for (const auto& stage : run.needs)
    for (const auto& chunk : stage.chunks)
      for (const int slots : {chunk.activation_slots, chunk.gradient_slots, chunk.target_slots})
        out.number(static_cast<std::int32_t>(slots));
}

}  // namespace

std::string flight_record_head(const FlightRecordHead& head) {
  WireWriter before, out;
  before.number(version);
  write_run(head, out);
  std::string bytes(magic);
  append(bytes, before.data());
  return bytes + part(head_kind, out.data());
}

std::string flight_record_membership(const FlightRecordHead& head) {
  WireWriter out;
  write_run(head, out);
  out.number(static_cast<std::int32_t>(head.run.membership));
  out.list(head.run.process_of, [&](int process) { out.number(static_cast<std::int32_t>(process)); });
  return part(membership_kind, out.data());
}

std::string flight_record_step(const RecordedStep& step) {
  WireWriter out;
  out.number(step.step);
  out.flag(step.kind == schedules::StepKind::evaluation);
  out.flag(step.failed);
  out.list(step.logs, [&](const schedules::StageLog& log) {
    out.number(static_cast<std::int64_t>(std::chrono::nanoseconds(log.base.time_since_epoch()).count()));
    out.text(log.bytes);
  });
  return part(step_kind, out.data());
}

std::string flight_record_end() { return part(end_kind, {}); }

std::uint64_t whole_steps_end(const std::filesystem::path& file) {
  std::uint64_t end = 0;
  try {
    FlightRecordReader reader(file);
    do {
      end = reader.end();
    } while (reader.next());
  } catch (const Error&) {  // the rest is not whole
  }
  return end;
}

FlightRecordReader::FlightRecordReader(const std::filesystem::path& file) : file_(file) { read_head(); }

void FlightRecordReader::fail(const std::string& what) const {
  const std::string whole =
      last_step_ ? fmt::format("it is whole up to step {}", *last_step_) : "nothing of it can be replayed";
  throw Error(ErrorKind::input, fmt::format("{}: byte {}: {}; {}", file_.path().string(), part_, what, whole));
}

std::string_view FlightRecordReader::take(std::uint64_t bytes, const char* what) {
  const std::uint64_t left = file_.size() - at_;
  if (bytes > left) {
    part_ = file_.size();
    fail(fmt::format("the file ends in the middle of {}", what));
  }
  if (bytes > window_.size() - (at_ - window_at_)) {
    window_.resize(static_cast<std::size_t>(std::min(left, std::max(bytes, window_bytes))));
    file_.read_at(at_, window_.data(), window_.size());
    window_at_ = at_;
  }
  const auto begin = static_cast<std::size_t>(at_ - window_at_);
  at_ += bytes;
  return std::string_view(window_).substr(begin, static_cast<std::size_t>(bytes));
}

std::optional<FlightRecordReader::Part> FlightRecordReader::read_part() {
  part_ = at_;
  if (at_ == file_.size()) return std::nullopt;
  const std::string_view head = take(part_head_bytes, "a part");
  WireReader in(bytes_of(head));
  Part part;
  part.kind = in.number<char>();
  const auto size = in.number<std::uint32_t>();
  const auto sum = in.number<std::uint64_t>();
  constexpr std::string_view kinds = "HMSE";
  if (kinds.find(part.kind) == kinds.npos) fail("is damaged: a part of unknown kind");
  const std::uint64_t begin = part_;
  part.contents = take(size, "a part");
  part_ = begin;
  if (checksum(part.contents.data(), part.contents.size()) != sum) fail("is damaged: a part's checksum is wrong");
  return part;
}

void FlightRecordReader::read_head() {
  if (file_.size() < magic.size() + sizeof version) fail("is not a record of a run: it is too short");
  if (take(magic.size(), "its name") != magic) fail("is not a record of a run; give the file of a run that was recorded");
  std::uint32_t found = 0;
  std::memcpy(&found, take(sizeof found, "its version").data(), sizeof found);
  if (found != version)
    fail(fmt::format("has version {} of the format, and this build reads version {}; replay it with the build that wrote it",
                     found, version));
  const auto part = read_part();
  if (!part || part->kind != head_kind) fail("has no head");
  head_ = read_run(part->contents, false);
}

// further: of a membership after the first one.
FlightRecordHead FlightRecordReader::read_run(std::string_view contents, bool further) const {
  try {
    WireReader in(bytes_of(contents));
    FlightRecordHead head = head_of(in, file_.path().string());
    if (further) read_membership_of(in, head.run);
    in.end();
    return head;
  } catch (const schedules::PlanFileError& error) {
    fail(std::string("has an impossible plan: ") + error.what());
  } catch (const Error&) {  // the errors of the wire speak of messages, not of this file
    fail(further ? "has an impossible membership" : "has an impossible head");
  }
}

void FlightRecordReader::read_membership(std::string_view contents) {
  FlightRecordHead head = read_run(contents, true);
  if (!have_same_pipeline(head.run, head_.run)) fail("has a membership with another plan");
  if (head.run.membership <= head_.run.membership) fail("has memberships in a wrong order");
  head_ = std::move(head);
}

std::optional<RecordedStep> FlightRecordReader::next() {
  if (ended_) return std::nullopt;
  auto part = read_part();
  for (; part && part->kind == membership_kind; part = read_part()) read_membership(part->contents);
  if (!part) return std::nullopt;
  if (part->kind == head_kind) fail("has a second head");
  if (part->kind == end_kind) {
    ended_ = true;
    if (at_ != file_.size()) fail("has bytes after its end");
    return std::nullopt;
  }
  RecordedStep step;
  try {
    WireReader in(bytes_of(part->contents));
    step = recorded_step(in);
  } catch (const Error&) {
    fail("has an impossible step");
  }
  if (std::ssize(step.logs) != head_.run.logs()) fail("has a step of another number of stages");
  last_step_ = step.step;
  return step;
}

}  // namespace pipetrain
