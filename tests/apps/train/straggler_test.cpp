// A really slow rank, in one process and over several, is reported once, by name.
#include <string>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"

using Catch::Matchers::Contains;
using pipetrain::Result;
using pipetrain::run;

namespace {

// Returns the lines of stderr about a slow stage, each with the line end before it.
std::string told_lines(const std::string& err) {
  std::string lines;
  for (std::size_t begin = 0; begin < err.size();) {
    const std::size_t end = std::min(err.find('\n', begin), err.size());
    const std::string line = err.substr(begin, end - begin);
    if (line.find("has computed for") != std::string::npos) lines += line + "\n";
    begin = end + 1;
  }
  return lines;
}

// Actions of well below a millisecond, which no other load makes three times longer for 8 steps in a row.
const std::string small_straggler =
    "--device cpu --threads 1 --layers 2 --seq-len 16 --pp 2 --microbatches 2 --steps 40 --watch-slow 200 --watch-slow-steps 8 "
    "--log-interval 100 ";

}  // namespace

TEST_CASE("a rank that becomes slow is reported once, with its stage, in one process and over several", "[alone]") {
  for (const char* how : {"", "launch --nproc 2 "}) {
    const Result slow = run(how + small_straggler + "--dp 2", "PIPETRAIN_FAULT=3:12:slow");
    INFO(how << slow.err);
    CHECK(slow.status == 0);
    const std::string lines = told_lines(slow.err);
    CHECK(std::count(lines.begin(), lines.end(), '\n') == 1);
    CHECK_THAT(lines, Contains("step 19: stage 1, tp rank 0, replica 1 has computed for"));
    CHECK(told_lines(run(how + small_straggler + "--dp 2").err).empty());
  }
}
