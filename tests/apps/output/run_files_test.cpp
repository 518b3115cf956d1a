// The files and streams that a run reads and writes: their contents afterwards, whatever went wrong.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "paths.hpp"
#include "skip.hpp"

using namespace pipetrain;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

const std::string small_files = "--device cpu --seq-len 8 --layers 1 --microbatches 1 ";

// Returns the steps in a metrics file.
std::vector<int> steps(const fs::path& metrics) {
  std::vector<int> found;
  std::ifstream file(metrics);
  for (std::string line; std::getline(file, line);) found.push_back(std::stoi(line.substr(line.find(':') + 1)));
  return found;
}

}  // namespace

TEST_CASE("a limit on the size of files is reported with its remedy, and leaves nothing half-written") {
  const TempFolder folder;
  const std::string save = (folder.path() / "run").string(), picture = (folder.path() / "x.svg").string();
  const Result trained = run(small_files + "--steps 4 --save-interval 2 --save " + save, "ulimit -f 100;");
  CHECK(trained.status == 1);
  CHECK_THAT(trained.err, Contains("\npipetrain: error: --save " + save + ": " + save + "/step-00000002/rank-0000") &&
                              Contains("File too large; raise ulimit -f, or save to another disk"));
  CHECK_THAT(refused("simulate --svg " + picture, "ulimit -f 10;"), Contains("x.svg: cannot be written"));
  CHECK(names_in(folder.path()).empty());
}

TEST_CASE("a step that is skipped says so in the metrics and in its line") {
  const TempFolder folder;
  const fs::path metrics = folder.path() / "m";
  const Result trained =
      run(small_files + "--steps 3 --log-interval 1 --metrics " + metrics.string(), "PIPETRAIN_FAULT=0:2:skip");
  REQUIRE(trained.status == 0);
  std::ifstream file(metrics);
  std::vector<bool> skipped;
  for (std::string line; std::getline(file, line);) {
    skipped.push_back(line.find("\"skipped\":true") != std::string::npos);
    CHECK_THAT(line, Contains(skipped.size() == 3 ? "\"applied_steps\":2" : "\"applied_steps\":1"));
  }
  CHECK(skipped == std::vector<bool>{false, true, false});
  CHECK_THAT(trained.err, Contains("step 2/3  skipped") && !Contains("step 1/3  skipped"));
}

TEST_CASE("results that cannot be written to stdout are an error") {
  const TempFolder folder;
  const fs::path err = folder.path() / "err";
  for (const std::string& command :
       {std::string("simulate --json"), std::string("simulate"), std::string("doctor"), std::string("--version"),
        std::string("--help"), small_files + "--dry-run", small_files + "--steps 1"}) {
    for (const char* target : {"> /dev/full", ">&-"}) {
      const std::string line = "'" + program_path() + "' " + command + " 2> '" + err.string() + "' " + target;
      const int status = std::system(line.c_str());
      INFO(line << ": " << read_file(err));
      REQUIRE(WIFEXITED(status));
      CHECK(WEXITSTATUS(status) == 2);
      CHECK_THAT(read_file(err), Contains("pipetrain: error: stdout: the results cannot be written"));
    }
  }
  const int status = std::system(("'" + program_path() + "' --pp 0 2> /dev/full").c_str());
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 2);
}

TEST_CASE("a saved run succeeds with a note if its result line cannot be printed") {
  const TempFolder folder;
  const fs::path err = folder.path() / "err", save = folder.path() / "run";
  for (const char* target : {"> /dev/full", ">&-"}) {
    fs::remove_all(save);
    for (const std::string& command :
         {small_files + "--steps 1 --save " + save.string(), small_files + "--steps 1 --resume --save " + save.string(),
          "export --load " + (save / "step-00000001").string() + " --out " + (save / "model").string()}) {
      const std::string line = "'" + program_path() + "' " + command + " 2> '" + err.string() + "' " + target;
      const int status = std::system(line.c_str());
      INFO(line << ": " << read_file(err));
      REQUIRE(WIFEXITED(status));
      CHECK(WEXITSTATUS(status) == 0);
      CHECK_THAT(read_file(err), Contains("stdout: the line of the result cannot be written (") && !Contains("error:"));
      CHECK(names_in(save) == std::vector<std::string>{"model", "results.json", "step-00000001"});
    }
  }
}

TEST_CASE("a reader of results that stops reading is not an error") {
  const TempFolder folder;
  for (const std::string& command :
       {std::string("simulate --pp 4 --microbatches 64 --schedule all --json"), std::string("--help"),
        "generate --prompt x --model " + test_data() + "/golden/llama3_tiny 2>/dev/null"}) {
    const auto script = folder.write("run.sh", "'" + program_path() + "' " + command + " | true\nexit ${PIPESTATUS[0]}\n");
    for (int run = 0; run < 5; ++run) {  // the reader goes before, between and after the writes
      const Result result = run_program("/bin/bash", script.string());
      CHECK(result.status == 0);
      CHECK(result.err == "");
    }
  }
}

TEST_CASE("notes that cannot be written fail nothing") {
  for (const char* command : {"simulate --pp 2 --microbatches 2", "--device cpu --layers 2 --dry-run"}) {
    CAPTURE(command);
    const int status = std::system(
        (std::string("PIPETRAIN_UNKNOWN=1 '" + program_path() + "' ") + command + " > /dev/null 2> /dev/full").c_str());
    CHECK(WEXITSTATUS(status) == 0);
  }
}

TEST_CASE("a reader of progress that goes away does not end the run") {
  const TempFolder folder;
  const std::string save = (folder.path() / "run").string();
  const auto script = folder.write("run.sh", "'" + program_path() + "' " + small_files + "--steps 50 --save " + save +
                                                 " 2>&1 > /dev/null | head -c 1\nexit ${PIPESTATUS[0]}\n");
  CHECK(run_program("/bin/bash", script.string()).status == 0);
  CHECK(names_in(save) == std::vector<std::string>{"model", "results.json", "step-00000050"});
}

TEST_CASE("metrics that nobody reads any more end the run with a line") {
  const TempFolder folder;
  const std::string pipe = (folder.path() / "pipe").string();
  const auto script =
      folder.write("run.sh", "mkfifo " + pipe + "\nhead -c 300 " + pipe + " > /dev/null &\ntimeout -s KILL 60 '" +
                                 program_path() + "' " + small_files + "--steps 2000 --metrics " + pipe + "\n");
  const Result result = run_program("/bin/bash", script.string());
  CHECK(result.status == 2);
  CHECK_THAT(result.err, Contains("pipetrain: error: --metrics " + pipe + ": cannot be written (Broken pipe)"));
}

TEST_CASE("a large data file that is cut short under a run ends it with a line") {
  const TempFolder folder;
  std::string rows;
  for (int i = 0; i < 40000; ++i) rows += "{\"text\": \"row " + std::to_string(i) + "\"}\n";
  const std::string data = folder.write("rows.jsonl", rows).string(), metrics = (folder.path() / "metrics").string();
  const std::string out = (folder.path() / "out").string();  // drafts would be left there
  fs::create_directory(out);
  const auto script = folder.write(
      "run.sh", "timeout -s KILL 60 '" + program_path() + "' " + small_files + "--steps 100000 --data " + data + " --metrics " +
                    metrics + " --save " + out + " --trace " + out + "/trace.json & child=$!\nfor i in $(seq 300); do [ -s " +
                    metrics + " ] && break; sleep 0.1; done\ntruncate -s 100 " + data + "\nwait $child\n");
  const Result result = run_program("/bin/bash", script.string());
  CHECK(result.status == 2);
  CHECK_THAT(result.err, Contains("pipetrain: error: a data file was cut short while it was in use"));
  CHECK(names_in(out).empty());
}

TEST_CASE("a trace that cannot be written does not cost the trained weights") {
  const TempFolder folder;
  const std::string save = (folder.path() / "run").string();
  const Result result = run(small_files + "--steps 2 --trace /dev/full --save " + save);
  CHECK(result.status == 2);
  CHECK_THAT(result.err, Contains("pipetrain: error: --trace /dev/full: cannot be written"));
  CHECK(names_in(save) == std::vector<std::string>{"model", "results.json", "step-00000002"});
}

TEST_CASE("a folder with another run's checkpoints is refused before anything is computed") {
  const TempFolder folder;
  const std::string save = (folder.path() / "run").string();
  REQUIRE(run(small_files + "--steps 4 --save-interval 2 --save " + save).status == 0);
  const auto before = names_in(save);
  CHECK(refused(small_files + "--steps 3 --seed 1 --save-keep 1 --save " + save) ==
        "--save " + save +
            ": holds checkpoints of another run, the newest step-00000004; continue from it with its settings and resume, or "
            "give another folder");
  CHECK_THAT(refused(small_files + "--load " + save + "/step-00000002 --save " + save), Contains("the newest step-00000004"));
  CHECK(names_in(save) == before);

  const std::string other = (folder.path() / "other").string();
  CHECK(run(small_files + "--steps 5 --resume --save " + save).status == 0);
  CHECK(run(small_files + "--steps 6 --load " + save + "/step-00000005 --save " + save).status == 0);
  CHECK(run(small_files + "--steps 5 --load " + save + "/step-00000002 --save " + other).status == 0);
  CHECK(run(small_files + "--steps 2 --resume --save " + (folder.path() / "empty").string()).status == 0);
}

TEST_CASE("--resume takes the newest checkpoint that is complete, and says what it passed over") {
  const TempFolder folder;
  const std::string save = (folder.path() / "run").string();
  REQUIRE(run(small_files + "--steps 3 --save-interval 1 --save " + save).status == 0);
  const std::string newest = save + "/step-00000003";
  SECTION("a file is missing") {
    fs::remove(newest + "/" + std::string(GENERATE("rank-00000.safetensors", "state.json", "config.json")));
  }
  SECTION("a file is cut short") { fs::resize_file(newest + "/rank-00000.safetensors", 5000); }
  fs::create_directories(save + "/step-00000009.partial/x");
  const Result resumed = run(small_files + "--steps 4 --resume --save " + save);
  INFO(resumed.err);
  CHECK(resumed.status == 0);
  CHECK_THAT(resumed.err, Contains("step-00000003 is skipped: ") && Contains("resuming after step 2"));
  CHECK_FALSE(fs::exists(save + "/step-00000009.partial"));
  CHECK_THAT(refused(small_files + "--load " + newest), Contains(newest));
}

TEST_CASE("a run resumes with the same data only") {
  const TempFolder folder;
  const std::string save = (folder.path() / "run").string();
  const std::string text = folder.write("a.txt", std::string(500, 'a')).string();
  const std::string other = folder.write("b.txt", std::string(500, 'b')).string();
  REQUIRE(run(small_files + "--steps 2 --data " + text + " --save " + save).status == 0);
  const std::string go_on = small_files + "--steps 3 --resume --save " + save;
  CHECK_THAT(refused(go_on + " --data " + other), Contains("was made with other data"));
  CHECK_THAT(refused(go_on + " --shuffle off --data " + text), Contains("shuffle on, this run has off"));
  CHECK_THAT(refused(go_on + " --layers 2 --data " + text), Contains("give the model, and the number of layers"));
  fs::rename(text, folder.path() / "moved.txt");
  CHECK(run(go_on + " --data " + (folder.path() / "moved.txt").string()).status == 0);
}

TEST_CASE("metrics of a resumed run have every step once") {
  const TempFolder folder;
  const std::string save = (folder.path() / "run").string(), metrics = (folder.path() / "m.jsonl").string();
  const std::string options = small_files + "--steps 6 --save-interval 2 --save " + save + " --metrics " + metrics;
  CHECK(run(options, "PIPETRAIN_FAULT=0:4:throw").status == 1);
  CHECK(steps(metrics) == std::vector<int>{1, 2, 3});
  CHECK(run(options + " --resume").status == 0);
  CHECK(steps(metrics) == std::vector<int>{1, 2, 3, 4, 5, 6});
  CHECK_THAT(refused(small_files + "--steps 7 --resume --save " + save + " --metrics /dev/full"),
             StartsWith("--metrics /dev/full: "));
}

TEST_CASE("two outputs of one name, or an output that is read, are refused") {
  const TempFolder folder;
  const std::string file = (folder.path() / "same").string(), text = folder.write("t.txt", std::string(500, 'a')).string();
  CHECK(refused("--metrics " + file + " --trace " + folder.path().string() + "/./same") ==
        "--trace " + folder.path().string() + "/./same: --metrics writes there too; give each its own path");
  CHECK_THAT(refused("--save " + file + " --metrics " + file), Contains("--save writes there too"));
  CHECK_THAT(refused("--data " + text + " --metrics " + text), Contains("--data reads there too"));
  CHECK_THAT(refused("simulate --svg " + file + " --html " + file), Contains("--svg writes there too"));
  CHECK(run("simulate --svg /dev/null --html /dev/null").status == 0);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"t.txt"});
}

namespace {

// A sanitizer, or CUDA's libraries, may take more address space than a limit allows before the program begins.
bool starts_under(const char* limit) {
  if (run("--version", limit).status == 0) return true;
  test::skip(std::string(limit) + " does not even let the program start");
  return false;
}

const char* const less_than_the_model = "ulimit -v 4000000;";

}  // namespace

TEST_CASE("too few threads are one line") {
  // With large stacks the address space ends at the start of a thread, and never at a small allocation beside it.
  const char* const few_stacks = "ulimit -s 65536; ulimit -v 500000;";
  if (!starts_under(few_stacks)) return;
  const Result threads = run(small_files + "--tp 8 --pp 2", few_stacks);
  CHECK(threads.status == 1);
  CHECK_THAT(threads.err, Contains("pipetrain: error: the host") && Contains("threads") && Contains("ulimit"));
}

TEST_CASE("under any limit on memory, the run succeeds or ends in a line") {
  for (int kib = 60'000; kib < 500'000; kib += 40'000) {
    const std::string limit = "ulimit -v " + std::to_string(kib) + ";";
    // Libraries give up with their own messages before the program begins.
    if (run("--version", limit).status != 0) continue;
    const Result result = run(small_files + "--pp 2 --steps 1", limit);
    if (result.status == 0) continue;
    INFO(kib << ": " << result.err);
    CHECK(result.status == 1);
    CHECK_THAT(result.err, Contains("pipetrain: error: "));
  }
  // oneDNN generates code for products, and may find no memory for it after the run's own has been allocated.
  for (int kib = 380'000; kib < 440'000; kib += 5'000) {
    const std::string limit = "ulimit -v " + std::to_string(kib) + ";";
    if (run("--version", limit).status != 0) continue;
    const Result result = run("--device cpu --threads 1 --seq-len 128 --microbatch 8 --microbatches 1 --steps 1", limit);
    INFO(kib << ": " << result.err);
    CHECK((result.status == 0 || (result.status == 1 && result.err.find("pipetrain: error: ") != std::string::npos)));
  }
}

TEST_CASE("too little memory is one line, after a dry run's tables") {
  if (!starts_under(less_than_the_model)) return;
  const std::string large = "--model llama3.2-1b --seq-len 512 --device cpu ";
  const Result memory = run(large + "--steps 1", less_than_the_model);
  CHECK(memory.status == 1);
  CHECK_THAT(memory.err, Contains("the run needs about") && Contains("MiB are free"));
  const Result dry = run(large + "--dry-run", less_than_the_model);
  CHECK(dry.status == 1);
  CHECK_THAT(dry.out, Contains("total MiB"));
  CHECK_THAT(dry.err, StartsWith("pipetrain: error: the host: the run needs about"));
}

TEST_CASE("a learning rate of 0 ends after one epoch of the inside text") {
  const Result result = run("--device cpu --seq-len 128 --layers 1 --microbatch 200 --microbatches 1 --lr 0");
  CHECK(result.status == 0);
  CHECK_THAT(result.out, StartsWith("3 steps"));
}
