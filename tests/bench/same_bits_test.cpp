// scripts/same_bits.sh reports equal programs as equal, and one that computes or writes something else as different.
#include <filesystem>
#include <string>

#include "catch.hpp"
#include "paths.hpp"
#include "run_program.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
namespace fs = std::filesystem;

namespace {

// Returns the program with further options.
std::string changed_program(const TempFolder& folder, const std::string& name, const std::string& options) {
  const fs::path script = folder.write(name, "#!/bin/sh\nexec '" + program_path() + "' \"$@\" " + options + "\n");
  fs::permissions(script, fs::perms::owner_all);
  return script.string();
}

}  // namespace

TEST_CASE("programs that compute the same are distinguished from those that do not", "[slow]") {
  const TempFolder folder;
  const auto compare = [&](const std::string& other, const std::string& runs) {
    return run_program(source_folder() + "/scripts/same_bits.sh", "'" + program_path() + "' '" + other + "' '" + runs + "'");
  };
  const std::string one = "tiny --pp 2 --loss-chunks 3", goes_on = "tiny --pp 2 --steps 2 => --steps 4";
  const auto same = compare(program_path(), one);
  INFO(same.err);
  CHECK(same.status == 0);
  CHECK(same.out == "1 runs, 1 equal\n");
  CHECK(compare(program_path(), goes_on).out == "1 runs, 1 equal\n");

  const auto other_seed = compare(changed_program(folder, "seed", "--seed 1"), one);
  CHECK(other_seed.status == 1);
  CHECK_THAT(other_seed.out, Contains(one + ": metrics: ") && EndsWith("1 runs, 0 equal\n"));
  const auto other_type = compare(changed_program(folder, "type", "--save-dtype bf16"), one);
  CHECK(other_type.status == 1);
  CHECK_THAT(other_type.out, Contains(one + ": saved: "));
  const auto failing = compare(changed_program(folder, "fails", "--tp 3"), one);
  CHECK(failing.status == 1);
  CHECK_THAT(failing.out, Contains(one + ": the new program fails: "));
  CHECK(compare(program_path(), "no such run").status == 2);
}
