// Text from several processes, started as users start them: their output, and how they end.
#include <signal.h>

#include <fstream>
#include <string>
#include <utility>

#include "apps/live_run.hpp"
#include "apps/pipetrain_program.hpp"
#include "bench/faults/marked_processes.hpp"
#include "catch.hpp"
#include "comm/control/held_port.hpp"
#include "paths.hpp"

using namespace pipetrain;
using bench::ProcessMark;
using Catch::Matchers::Contains;

namespace {

const std::string launch_llama =
    "generate --device cpu --threads 1 --model " + test_data() + "/golden/llama3_tiny --max-new-tokens 24 ";

// More prompts than any test waits for, with one text after the other.
std::string many_prompts(const TempFolder& folder) {
  const std::string file = (folder.path() / "prompts.txt").string();
  std::ofstream out(file);
  for (int i = 0; i < 100000; ++i) out << "prompt " << i << "\n";
  return file;
}

std::size_t count_of_text(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// A launch that writes text and would run for long.
class LiveText {
 public:
  explicit LiveText(const std::string& options)
      : run_("launch " + options + " " + launch_llama + "--prompts " + many_prompts(folder_), mark_.variable(), out()) {
    run_.wait_until([&] { return read_file(out()).size() > 100; });
  }
  const ProcessMark& mark() const { return mark_; }
  LiveRun& run() { return run_; }

 private:
  std::string out() const { return (folder_.path() / "out").string(); }
  TempFolder folder_;
  ProcessMark mark_;
  LiveRun run_;
};

}  // namespace

TEST_CASE("processes write the text that one process writes, to the letter", "[launch]") {
  const TempFolder folder;
  const std::string file = (folder.path() / "prompts.txt").string();
  std::ofstream(file) << "The river\nwas\nThere was once a valley, and in the valley\n";
  const std::string prompts = " --prompts " + file;
  const std::string drawn = " --temperature 1.2 --top-k 100 --top-p 0.9 --repetition-penalty 1.1 --seed 3";
  const struct {
    const char *processes, *layout;
  } runs[] = {{"2", "--pp 2"}, {"2", "--tp 2"}, {"2", "--pp 2 --tp 2"}, {"4", "--pp 2 --tp 2"}, {"4", "--pp 4 --in-flight 1"}};
  for (const std::string& how : {prompts, prompts + drawn + " --json"}) {
    for (const auto& [processes, layout] : runs) {
      INFO(processes << " processes, " << layout << how);
      const std::string options = launch_llama + layout + how;
      const Result alone = run(options);
      const ProcessMark mark;
      const Result together = run("launch --nproc " + std::string(processes) + " " + options, mark.variable());
      INFO(together.err);
      CHECK(together.status == 0);
      CHECK(alone.out.size() > 20);
      CHECK(together.out == alone.out);
      CHECK(count_of_text(together.err, "72 tokens in ") == 1);
      CHECK(mark.all_gone());
    }
  }
}

TEST_CASE("the word generate may be anywhere among launch's options", "[launch]") {
  const std::string options = "--pp 2 --prompt generate --device cpu --model " + test_data() + "/golden/llama3_tiny";
  const Result alone = run("generate " + options);
  CHECK(run("launch --nproc 2 generate " + options).out == alone.out);
  CHECK(run("launch generate --nproc=2 " + options).out == alone.out);
  CHECK(run("launch --nproc 2 " + options + " generate").out == alone.out);
  CHECK_THAT(run("launch --help").out, Contains("launch --nproc N generate"));
}

TEST_CASE("processes that other launchers start generate together", "[launch]") {
  const std::string options = launch_llama + "--pp 2 --prompt 'The river'";
  const auto port = std::to_string(HeldPort(0).port());
  const std::string place = " WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port;
  const TempFolder folder;
  const std::string out = (folder.path() / "out").string();
  LiveRun second(options, "RANK=1" + place, out);
  const Result first = run(options, "RANK=0" + place);
  INFO(first.err << second.err());
  CHECK(first.status == 0);
  CHECK(second.end_by(0) == 0);
  CHECK(second.err().empty());
  CHECK(read_file(out).empty());
  CHECK(first.out == run(options).out);
}

TEST_CASE("a process that is killed while text is written is named", "[launch]") {
  for (const auto& [process, layout] : {std::pair(1, "--pp 3"), std::pair(0, "--pp 3"), std::pair(1, "--pp 2 --tp 2")}) {
    LiveText text("--nproc 3 " + std::string(layout));
    REQUIRE(text.mark().signal(process, SIGKILL));
    CHECK(text.run().end_by(0) == 1);
    CHECK(text.mark().all_gone());
    INFO(text.run().err());
    CHECK_THAT(text.run().err(),
               Contains("error: process " + std::to_string(process) + " (rank") && Contains("was ended by SIGKILL"));
    CHECK(count_of_text(text.run().err(), "pipetrain: error: ") == 1);
  }
}

TEST_CASE("a signal to the launch, or to any process, ends text after its token", "[launch]") {
  for (const int process : {-1, 0, 1}) {
    LiveText text("--nproc 2 --pp 2");
    if (process < 0) {
      CHECK(text.run().end_by(SIGINT) == 130);
    } else {
      REQUIRE(text.mark().signal(process, SIGINT));
      CHECK(text.run().end_by(0) == 130);
    }
    INFO(process << ": " << text.run().err());
    CHECK(text.mark().all_gone());
    CHECK(count_of_text(text.run().err(), "stopped by SIGINT") == 1);
    CHECK(count_of_text(text.run().err(), "error") == 0);
  }
}

TEST_CASE("an error in text generation over several processes gives one line", "[launch]") {
  const auto check = [](const std::string& arguments, const std::string& begin) {
    const std::string line = refused(arguments);
    INFO(line);
    CHECK(line.substr(0, begin.size()) == begin);
  };
  const std::string given = launch_llama + "--prompt x ";
  check("launch " + given, "--nproc: is missing");
  check("launch --nproc 3 " + given + "--pp 2", "--nproc 3: 3 processes for 2 ranks");
  check("launch --nproc 2 --restart 1 " + given + "--pp 2", "--restart: unknown option");
  check("launch --nproc 2 --dp 2 " + given, "--dp: unknown option");
  check("launch --nproc 2 --tp 3 " + given, "--tp 3: ");
  check("launch --nproc 2 --pp 2 " + given + "--max-new-tokens 128", "--max-new-tokens 128: the longest prompt has 1 token");
  check("launch --nproc 2 --pp 2 " + launch_llama + "--prompts no/such", "--prompts no/such: ");
  check("launch --nproc 2 --pp 19 " + given,
        "--pp: the model's 16 attention and MLP blocks, two a layer, are too few for 19 stages");
  check("launch --nproc 2 --pp 2 " + given + "--chat llama3", "--chat llama3: a chat needs a tokenizer");
}

TEST_CASE("text of several processes stops when nobody reads it any more", "[launch]") {
  const TempFolder folder;
  const ProcessMark mark;
  const Result result = run_program("/bin/sh",
                                    "-c '\"" + program_path() + "\" launch --nproc 2 --pp 2 " + launch_llama + "--prompts " +
                                        many_prompts(folder) + " | head -c 1 > /dev/null'",
                                    mark.variable());
  CHECK(result.status == 0);
  CHECK(mark.all_gone());
}
