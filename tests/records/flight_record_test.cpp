// The file of --record: a written file is read back, and a damaged one is refused with the offset of the damage.
#include "records/flight_record.hpp"

#include <fstream>

#include "catch.hpp"
#include "core/error.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/plan/validate.hpp"
#include "schedules/record/log_codec.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using namespace std::chrono_literals;
using namespace pipetrain::schedules;
using Catch::Matchers::Contains;

namespace {

FlightRecordHead some_head() {
  FlightRecordHead head;
  head.title = "a run";
  head.run.plan = with_end_of_step(build_schedule("interleaved", {2, 2, 4}), {.reduce_grads = true});
  head.run.needs = validate(head.run.plan);
  head.run.replicas = 2;
  return head;
}

RecordedStep some_step(std::int64_t number) {
  RecordedStep step;
  step.step = number;
  for (int log = 0; log < 4; ++log) {
    StageLogWriter writer(2, 4);
    const StageLogWriter::Time begin(1h + number * 1s);
    writer.begin(StepKind::training, begin);
    writer.input(InputKind::activation, 0, 0, begin + 3us);
    writer.launched({ActionKind::forward, 0, 0});
    writer.completed({ActionKind::forward, 0, 0}, begin + 800us);
    step.logs.push_back(writer.take({{{ActionKind::forward, 0, 0}, 3'600'000'000'000, 3'600'000'700'001}}));
  }
  return step;
}

std::string some_file() {
  return flight_record_head(some_head()) + flight_record_step(some_step(1)) + flight_record_step(some_step(2)) +
         flight_record_end();
}

std::string refused(const std::filesystem::path& file) {
  try {
    FlightRecordReader reader(file);
    while (reader.next()) {
    }
    return reader.ended() ? "whole" : "no end";
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
}

}  // namespace

TEST_CASE("a record reads as it was written") {
  const TempFolder folder;
  FlightRecordReader reader(folder.write("run.rec", some_file()));
  const FlightRecordHead head = some_head();
  CHECK(reader.head().title == head.title);
  CHECK(reader.head().run.plan.stages == head.run.plan.stages);
  CHECK(reader.head().run.plan.placement == head.run.plan.placement);
  CHECK(reader.head().run.replicas == 2);
  for (std::size_t stage = 0; stage < 2; ++stage)
    for (std::size_t chunk = 0; chunk < 2; ++chunk) {
      CHECK(reader.head().run.needs[stage].chunks[chunk].activation_slots ==
            head.run.needs[stage].chunks[chunk].activation_slots);
      CHECK(reader.head().run.needs[stage].chunks[chunk].gradient_slots == head.run.needs[stage].chunks[chunk].gradient_slots);
    }
  for (const std::int64_t number : {1, 2}) {
    const auto step = reader.next();
    REQUIRE(step);
    const RecordedStep written = some_step(number);
    CHECK(step->step == number);
    for (std::size_t log = 0; log < 4; ++log) {
      CHECK(step->logs[log].bytes == written.logs[log].bytes);
      CHECK(step->logs[log].base == written.logs[log].base);
    }
  }
  CHECK_FALSE(reader.next());
  CHECK(reader.ended());
}

TEST_CASE("a record that is cut short is refused with its length, or replays up to a whole step") {
  const TempFolder folder;
  const std::string file = some_file();
  const std::size_t head = flight_record_head(some_head()).size(), step = flight_record_step(some_step(1)).size();
  for (std::size_t length = 0; length < file.size(); length += length < 100 ? 1 : 7) {
    const std::string said = refused(folder.write("cut.rec", file.substr(0, length)));
    CAPTURE(length, said);
    if (length == head || length == head + step || length == head + 2 * step) {
      CHECK(said == "no end");
    } else if (length > 20) {
      CHECK_THAT(said, Contains("byte " + std::to_string(length)) && Contains("the file ends in the middle of"));
      if (length > head + step) CHECK_THAT(said, Contains("it is whole up to step"));
    } else if (length == 20) {
      CHECK_THAT(said, Contains("has no head"));
    } else {
      CHECK_THAT(said, Contains("is not a record of a run"));
    }
  }
}

TEST_CASE("a record that another process continues has a part for each further membership", "[takeover]") {
  const TempFolder folder;
  const std::string whole = flight_record_head(some_head()) + flight_record_step(some_step(1));
  const std::string torn = flight_record_step(some_step(2));
  for (std::size_t length = 0; length < torn.size(); ++length)
    CHECK(whole_steps_end(folder.write("torn.rec", whole + torn.substr(0, length))) == whole.size());
  CHECK(whole_steps_end(folder.write("whole.rec", some_file())) == some_file().size() - flight_record_end().size());
  CHECK(whole_steps_end(folder.write("head.rec", flight_record_head(some_head()).substr(0, 30))) == 0);
  CHECK(whole_steps_end(folder.path() / "none.rec") == 0);

  FlightRecordHead further = some_head();
  further.run.membership = 3;
  further.run.process_of = {0, 0, 1, 5};
  FlightRecordReader reader(folder.write(
      "run.rec", whole + flight_record_membership(further) + flight_record_step(some_step(1)) + flight_record_end()));
  CHECK(reader.head().run.membership == 1);
  REQUIRE(reader.next());
  CHECK(reader.head().run.membership == 1);
  REQUIRE(reader.next());
  CHECK(reader.head().run.membership == 3);
  CHECK(reader.head().run.process_of == further.run.process_of);
  CHECK_FALSE(reader.next());
  CHECK(reader.ended());

  const auto said_of = [&](const FlightRecordHead& head) {
    return refused(folder.write("wrong.rec", whole + flight_record_membership(head) + flight_record_step(some_step(1))));
  };
  CHECK(said_of(further) == "no end");
  further.run.process_of = {0, 1};
  CHECK_THAT(said_of(further), Contains("has an impossible membership"));
  further = some_head();
  CHECK_THAT(said_of(further), Contains("has an impossible membership"));  // the first one again
  further.run.membership = 2;
  further.run.order = Order::ready;
  CHECK_THAT(said_of(further), Contains("has a membership with another plan"));
}

TEST_CASE("a run that no reader would take is refused when its record begins") {
  FlightRecordHead head = some_head();
  head.run.replicas = 5000;
  try {
    flight_record_head(head);
    FAIL("a record of 10,000 stages began");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    REQUIRE(error.setting());
    CHECK(error.setting()->name == "record");
  }
}

TEST_CASE("a changed byte of a record is found") {
  const TempFolder folder;
  const std::string file = some_file();
  for (std::size_t at = 0; at < file.size(); at += 3) {
    std::string changed = file;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    const std::string said = refused(folder.write("changed.rec", changed));
    CAPTURE(at, said);
    CHECK_THAT(said, Contains("byte "));
    CHECK(said.find('\n') == std::string::npos);
  }
}

TEST_CASE("a log gives back every event, time and action") {
  StageLogWriter writer(40, 8);
  const StageLogWriter::Time begin(5h);
  writer.credit(InputKind::gradient, 39, begin);
  writer.begin(StepKind::evaluation, begin + 100ns);
  writer.input(InputKind::target, 30, 5, begin + 1s);
  writer.launched({ActionKind::weight_grad, 33, 7});
  writer.launched({ActionKind::norm, 0, -1});
  writer.enqueued({ActionKind::norm, 0, -1}, begin + 1s + 1us);
  writer.completed({ActionKind::norm, 0, -1}, begin + 2s);
  writer.verdict(false, begin + 3s);
  const std::int64_t base = 5LL * 3600 * 1'000'000'000;
  const StageLog log = writer.take({{{ActionKind::norm, 0, -1}, base - 7, base + 9}});
  StageLogReader reader(40, 8);
  LogEvents read;
  reader.read(base, log.bytes, read);
  REQUIRE(read.events.size() == 8);
  CHECK(read.events[0].type == StageEvent::Type::credit);
  CHECK(read.events[0].action.chunk == 39);
  CHECK(read.events[1].type == StageEvent::Type::begin_evaluation);
  CHECK(read.events[1].time == base + 100);
  CHECK(read.events[2].input == InputKind::target);
  CHECK(read.events[2].action.microbatch == 5);
  CHECK(read.events[3].action == Action{ActionKind::weight_grad, 33, 7});
  CHECK(read.events[5].type == StageEvent::Type::enqueued);
  CHECK(read.events[6].type == StageEvent::Type::completed);
  CHECK(read.events[7].type == StageEvent::Type::verdict_skip);
  CHECK(read.events[7].time == base + 3'000'000'000);
  REQUIRE(read.actions.size() == 1);
  CHECK(read.actions[0] == LoggedAction{{ActionKind::norm, 0, -1}, base - 7, base + 9});
}
