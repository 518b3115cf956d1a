#include <set>
#include <string>
#include <variant>

#include "actors/training/job/job_settings.hpp"
#include "actors/training/job/setting_row.hpp"
#include "catch.hpp"

using namespace pipetrain;

namespace {

std::string text_after(const SettingRow& row, const SettingValue& value) {
  RunSettings run;
  row.member.set(run, value);
  return row.member.text(run);
}

void check_reads_back(const SettingRow& row) {
  if (const auto* range = std::get_if<IntegerRange>(&row.member.reader)) {
    CHECK(text_after(row, range->least) == std::to_string(range->least));
    CHECK(text_after(row, range->least + 1) == std::to_string(range->least + 1));
  } else if (std::holds_alternative<UnsignedInteger>(row.member.reader)) {
    CHECK(text_after(row, std::uint64_t{7}) == "7");
  } else if (std::holds_alternative<NumberRange>(row.member.reader)) {
    CHECK(text_after(row, 0.25) == "0.25");
  } else if (std::holds_alternative<OnOff>(row.member.reader)) {
    CHECK(text_after(row, true) == "on");
    CHECK(text_after(row, false) == "off");
  } else if (const auto* names = std::get_if<Choices>(&row.member.reader)) {
    for (std::size_t i = 0; i < names->size(); ++i) CHECK(text_after(row, static_cast<std::int64_t>(i)) == (*names)[i]);
  } else {
    CHECK(text_after(row, std::string("word")) == "word");
  }
}

}  // namespace

TEST_CASE("a setting keeps the value that its row is given, and tells it as text", "[settings]") {
  std::set<std::string> names;
  for (const SettingRow& row : setting_table()) {
    INFO(row.name);
    CHECK(names.insert(row.name).second);
    CHECK_FALSE(row.help.empty());
    CHECK(row.help.find("--") == std::string::npos);
    if (row.member.set) check_reads_back(row);
  }
}

TEST_CASE("processes compare the settings whose rows say so", "[settings]") {
  std::set<std::string> compared_names;
  RunSettings run;
  run.optimizer.eps = 0.5F;
  for (const auto& [name, value] : job_settings(run)) {
    CHECK(compared_names.insert(name).second);
    if (name == "adam-eps") CHECK(value == "0.5");
  }
  for (const char* name : {"pp", "zero", "lr", "adam-eps", "cut", "order", "trained-parts"})
    CHECK(compared_names.count(name) == 1);
  for (const char* name : {"threads", "save", "data", "stall-timeout"}) CHECK(compared_names.count(name) == 0);
}

TEST_CASE("a run tells the settings that are not usual", "[settings]") {
  JobSettings settings;
  CHECK(described_settings(settings).empty());
  settings.numerics.loss_chunks = 4;
  CHECK(described_settings(settings) == ", loss in 4 chunks");
  settings.numerics.recompute = Recompute::full;
  settings.numerics.recompute_layers = 1;
  CHECK(described_settings(settings) == ", recompute full of 1 layer, loss in 4 chunks");
}
