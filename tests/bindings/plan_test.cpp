// Plans of the C API, and the symbols that its library exports.
#include <cstdio>
#include <sstream>
#include <string>

#include "bindings/c_support.hpp"
#include "catch.hpp"
#include "paths.hpp"
#include "temp_folder.hpp"

using namespace pipetrain::test;
using pipetrain::TempFolder;

namespace {

std::string print(const pipetrain_plan* plan, int format) {
  return text_of([&](char* text, std::size_t capacity, std::size_t* length) {
    return pipetrain_plan_print(plan, format, text, capacity, length);
  });
}

}  // namespace

TEST_CASE("every schedule builds by name, validates, and reads back from what is printed") {
  auto schedule = sized<pipetrain_schedule>();
  std::size_t count = 0;
  for (; pipetrain_schedule_at(count, &schedule) == PIPETRAIN_OK; ++count) {
    INFO(schedule.name);
    const auto plan = build_plan(schedule.name, 4, 6);
    REQUIRE(plan);
    CHECK(pipetrain_plan_validate(plan.get(), nullptr) == PIPETRAIN_OK);
    const std::string text = print(plan.get(), PIPETRAIN_TEXT);
    const auto again = parse_plan(text);
    REQUIRE(again);
    CHECK(print(again.get(), PIPETRAIN_TEXT) == text);
    const std::string csv = print(plan.get(), PIPETRAIN_PYTORCH_CSV);
    CHECK(print(parse_plan(csv, PIPETRAIN_PYTORCH_CSV).get(), PIPETRAIN_PYTORCH_CSV) == csv);
  }
  CHECK(count >= 11);
  CHECK(error_has("schedules"));
}

TEST_CASE("a plan gives its shape, its actions and the needs of its chunks") {
  const auto plan = build_plan("interleaved", 2, 4);
  auto shape = sized<pipetrain_plan_shape>();
  REQUIRE(pipetrain_plan_describe(plan.get(), &shape) == PIPETRAIN_OK);
  CHECK(shape.stages == 2);
  CHECK(shape.chunks == 2);
  CHECK(shape.microbatches == 4);
  CHECK(shape.has_end == 0);
  std::size_t actions = 0;
  REQUIRE(pipetrain_plan_length(plan.get(), 1, &actions) == PIPETRAIN_OK);
  CHECK(actions == 16);
  auto action = sized<pipetrain_action>();
  REQUIRE(pipetrain_plan_action(plan.get(), 0, 0, &action) == PIPETRAIN_OK);
  CHECK(action.kind == PIPETRAIN_F);
  CHECK(action.microbatch == 0);
  int32_t virtual_stage = -1;
  REQUIRE(pipetrain_plan_virtual_stage(plan.get(), 1, 1, &virtual_stage) == PIPETRAIN_OK);
  CHECK(virtual_stage == 3);
  auto needs = sized<pipetrain_chunk_needs>();
  REQUIRE(pipetrain_plan_needs(plan.get(), nullptr, 1, 1, &needs) == PIPETRAIN_OK);
  CHECK(needs.activation_slots > 0);
  CHECK(needs.gradient_slots == 0);
  CHECK(needs.target_slots > 0);
}

TEST_CASE("the end of a step is appended once") {
  const auto compute = build_plan("1f1b", 2, 2);
  pipetrain_plan* ended = nullptr;
  REQUIRE(pipetrain_plan_with_end(compute.get(), 1, 0, 0, &ended) == PIPETRAIN_OK);
  const PlanOwner owner(ended);
  CHECK(print(ended, PIPETRAIN_TEXT).find("stage 1: F0 B0 F1 B1 R N O") != std::string::npos);
  CHECK(pipetrain_plan_with_end(ended, 0, 0, 0, &ended) == PIPETRAIN_INPUT);
  CHECK(error_has("already"));
}

TEST_CASE("a plan that breaks a rule is refused with its line, its action and the rule") {
  CHECK(!parse_plan("schedule: mine\nplacement: looping\nchunks: 1\nmicrobatches: 1\nstage 0: B0 F0\n"));
  CHECK(error_has("mine.txt:5"));
  CHECK(!parse_plan("nonsense"));
  CHECK(error_has("mine.txt:1"));
  CHECK(!build_plan("2f2b", 4, 8));
  CHECK(error_has("2f2b"));
  CHECK(error_has("zb-h1"));
  CHECK(!build_plan("1f1b", 1 << 20, 1 << 20));
  CHECK(!build_plan("1f1b", 4, 8, 3));
}

TEST_CASE("plans are read from files by the ending of their names") {
  const TempFolder folder;
  const auto plan = build_plan("zb-h1", 2, 3);
  for (const char* name : {"plan.txt", "plan.csv"}) {
    const std::string path = (folder.path() / name).string();
    std::FILE* file = std::fopen(path.c_str(), "w");
    std::fputs(print(plan.get(), path.ends_with(".csv") ? PIPETRAIN_PYTORCH_CSV : PIPETRAIN_TEXT).c_str(), file);
    std::fclose(file);
    pipetrain_plan* read = nullptr;
    REQUIRE(pipetrain_plan_read(path.c_str(), &read) == PIPETRAIN_OK);
    const PlanOwner owner(read);
    std::size_t actions = 0;
    CHECK(pipetrain_plan_length(read, 0, &actions) == PIPETRAIN_OK);
    CHECK(actions == 9);
    pipetrain_plan* none = nullptr;
    CHECK(pipetrain_plan_read((path + ".gone").c_str(), &none) == PIPETRAIN_INPUT);
    CHECK(error_has(".gone"));
  }
}

TEST_CASE("a text goes only into memory that is large enough") {
  const auto plan = build_plan("1f1b", 2, 2);
  std::size_t length = 0;
  char text[9] = "as it is";
  CHECK(pipetrain_plan_print(plan.get(), PIPETRAIN_TEXT, text, sizeof text, &length) == PIPETRAIN_INPUT);
  CHECK(length > sizeof text);
  CHECK(std::string(text) == "as it is");
}

TEST_CASE("the shared library shows no other symbols than its functions") {
  std::FILE* names = ::popen(("nm -D --defined-only '" + pipetrain::c_library_path() + "'").c_str(), "r");
  REQUIRE(names != nullptr);
  int functions = 0;
  char line[512];
  while (std::fgets(line, sizeof line, names) != nullptr) {
    std::istringstream words(line);
    std::string address, kind, name;
    words >> address >> kind >> name;
    INFO(line);
    CHECK(name.rfind("pipetrain_", 0) == 0);
    ++functions;
  }
  ::pclose(names);
  CHECK(functions > 30);
}

TEST_CASE("custom actions of a plan have a name and a stage") {
  const auto plan = parse_plan(
      "microbatches: 1\ncustom X0: fetch\ncustom X1: send after 0:X0 uses nic\nstage 0: X0 F0 B0\nstage 1: F0 B0 X1\n");
  INFO(pipetrain_last_error());
  REQUIRE(plan);
  auto custom = sized<pipetrain_custom>();
  REQUIRE(pipetrain_plan_custom(plan.get(), 1, &custom) == PIPETRAIN_OK);
  CHECK(std::string(custom.name) == "send");
  CHECK(custom.stage == 1);
  CHECK(pipetrain_plan_custom(plan.get(), 2, &custom) == PIPETRAIN_INPUT);
  CHECK(error_has("the plan has 2 custom actions"));
  auto action = sized<pipetrain_action>();
  REQUIRE(pipetrain_plan_action(plan.get(), 1, 2, &action) == PIPETRAIN_OK);
  CHECK(action.kind == PIPETRAIN_X);
  CHECK(action.microbatch == 1);
  CHECK(print(plan.get(), PIPETRAIN_TEXT).find("custom X1: send after 0:X0 uses nic\n") != std::string::npos);
  CHECK(print(plan.get(), PIPETRAIN_PYTORCH_CSV).empty());
}
