// The remains of files that were being written when a run was ended.
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "apps/live_run.hpp"
#include "apps/pipetrain_program.hpp"
#include "catch.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;

namespace {

const std::string small_unfinished = "--device cpu --seq-len 8 --layers 1 --microbatches 1 --steps 1 ";

using Names = std::vector<std::string>;

// A run that has drafted its trace and waits for a reader of its profile, in a folder of its own.
struct WritingRun {
  explicit WritingRun(const std::string& options = "")
      : made(::mkfifo((folder.path() / "pipe").c_str(), 0600)),
        run(small_unfinished + options + " --trace " + trace() + " --profile " + (folder.path() / "pipe").string()) {
    REQUIRE(made == 0);
    run.wait_until([&] { return left() == Names{draft()}; });
  }

  static constexpr const char* lock = ".trace.json.lock";

  std::string trace() const { return (folder.path() / "trace.json").string(); }
  std::string draft() const { return "trace.json." + std::to_string(run.process()) + ".partial"; }
  Names left() const {
    Names names = names_in(folder.path());
    std::erase_if(names, [](const std::string& name) { return name == "pipe" || name == lock; });
    return names;
  }

  TempFolder folder;
  int made;
  LiveRun run;
};

}  // namespace

TEST_CASE("a second signal leaves no drafts of files that were being written, and no lock") {
  const TempFolder place;
  for (const auto& [first, second, status] : {std::tuple{SIGINT, SIGTERM, 143}, std::tuple{SIGTERM, SIGINT, 130}}) {
    const std::string save = (place.path() / std::to_string(first)).string();
    WritingRun writing("--save " + save);
    writing.run.signal(first);
    writing.run.wait_until([&] { return writing.run.err().find("a second signal stops at once") != std::string::npos; });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // signals in quick succession count as one
    CHECK(writing.run.end_by(second) == status);
    CHECK_THAT(writing.run.err(), Contains("\nstopped at once by a second signal\n"));
    CHECK(names_in(writing.folder.path()) == Names{"pipe"});
    CHECK(names_in(save) == Names{"model", "results.json", "step-00000001"});
  }
}

TEST_CASE("a run removes the drafts that killed runs left of its files, and no others") {
  WritingRun killed;
  const std::string abandoned = killed.draft();
  WritingRun live;
  const Names others = {"other.json." + std::to_string(killed.run.process()) + ".partial", "trace.json.1x.partial",
                        "trace.json.partial"};
  for (const std::string& name : others) live.folder.write(name, "");
  CHECK(killed.run.end_by(SIGKILL) == -1);
  CHECK(killed.left() == Names{abandoned});
  live.folder.write(abandoned, "");

  CHECK(run(small_unfinished + "--trace " + killed.trace()).status == 0);
  CHECK(killed.left() == Names{"trace.json"});
  CHECK(run("simulate --trace " + live.trace()).status == 0);
  Names expected = others;
  expected.insert(expected.end(), {live.draft(), "trace.json"});
  std::sort(expected.begin(), expected.end());
  CHECK(live.left() == expected);
}
