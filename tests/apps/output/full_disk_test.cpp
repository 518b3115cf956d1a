// A full disk, simulated by a limit on the size of files: one line of error, and nothing half-written.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "paths.hpp"

using namespace pipetrain;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;

namespace {

const std::string small_on_full_disk = "--device cpu --seq-len 8 --layers 1 --microbatches 1 ";

// Counts the lines that report errors.
int errors_in(const std::string& text) {
  int found = 0;
  for (std::size_t at = text.find("pipetrain: error: "); at != std::string::npos; at = text.find("pipetrain: error: ", at + 1))
    ++found;
  return found;
}

}  // namespace

TEST_CASE("a record of a run for which the disk has no room is one line and status 2") {
  struct Record {
    std::string option, name;
    int blocks;  // limit on a file, in blocks of 512 bytes: less than it needs
  };
  for (const auto& [option, name, blocks] : std::vector<Record>{{"metrics", "m.jsonl", 2},
                                                                {"tensorboard", "events", 1},
                                                                {"record", "r.ptrc", 1},
                                                                {"report", "r.html", 8},
                                                                {"trace", "t.json", 1},
                                                                {"trace", "t.svg", 1},
                                                                {"profile", "p.json", 1}}) {
    const TempFolder folder;
    const std::string place = (folder.path() / name).string();
    const Result result = run(small_on_full_disk + "--steps 40 --log-interval 100 --" + option + " " + place,
                              "ulimit -f " + std::to_string(blocks) + ";");
    INFO(option << ": " << result.err);
    CHECK(result.status == 2);
    CHECK(errors_in(result.err) == 1);
    CHECK_THAT(result.err, Contains("pipetrain: error: --" + option + " " + place) && Contains("File too large"));
    for (const std::string& left : names_in(folder.path())) CHECK(left.find(".partial") == std::string::npos);
    if (option != "metrics" && option != "record" && option != "tensorboard") CHECK(names_in(folder.path()).empty());
    if (option == "metrics") CHECK(read_file(place).ends_with("}\n"));  // whole lines
  }
}

TEST_CASE("the files of the other commands are written whole, or not at all") {
  const TempFolder folder;
  const std::string place = folder.path().string() + "/", tokenizer = test_data() + "/data/tokenizers/fixtures/gpt2.json";
  for (const std::string& command :
       {"tokenize --tokenizer " + tokenizer + " --out " + place + "x.tokens", "simulate --pp 4 --html " + place + "x.html",
        "simulate --pp 4 --csv " + place + "x.csv",
        "simulate --pp 4 --microbatches 64 --plan-out " + place + "x.txt --svg " + place + "x.svg",
        "tune --model tiny --devices 4 --device cpu --global-batch 32 --latency 50 --tflops 0.05 --count 60 --plans " + place +
            "plans"}) {
    CHECK_THAT(refused(command, "ulimit -f 1;"), Contains(place) && Contains("cannot be written (File too large)"));
    CHECK(names_in(folder.path()).empty());
  }
}

TEST_CASE("a folder for which the disk has no room leaves nothing, and an older one stays") {
  const TempFolder folder;
  const std::string save = (folder.path() / "run").string(), out = (folder.path() / "out").string();
  REQUIRE(run(small_on_full_disk + "--steps 2 --save " + save).status == 0);
  const std::string command = "export --load " + save + "/step-00000002 --out " + out;
  const auto fails = [&] {
    const Result result = run(command, "ulimit -f 100;");
    INFO(result.err);
    CHECK(result.status == 1);
    CHECK(errors_in(result.err) == 1);
    CHECK_THAT(result.err, Contains(out + "/model.safetensors: cannot be written: File too large; raise ulimit -f"));
  };
  fails();
  CHECK(names_in(folder.path()) == std::vector<std::string>{"run"});
  REQUIRE(run(command).status == 0);
  const std::string before = read_file(out + "/model.safetensors");
  fails();
  CHECK((read_file(out + "/model.safetensors") == before));
  CHECK(names_in(folder.path()) == std::vector<std::string>{"out", "run"});
}
