// Resuming from checkpoints that are damaged, unreadable or half removed, or that belong to a finished run.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/bound_program.hpp"
#include "apps/live_run.hpp"
#include "catch.hpp"
#include "data/open_dataset.hpp"
#include "data/samples/fingerprint.hpp"
#include "older_checkpoint.hpp"
#include "paths.hpp"

using namespace pipetrain;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

const std::string small_resume = "--device cpu --seq-len 8 --layers 1 --microbatches 1 ";

void replace_in(const fs::path& file, const std::string& old, const std::string& text) {
  std::string content = read_file(file);
  REQUIRE(content.find(old) != std::string::npos);
  content.replace(content.find(old), old.size(), text);
  std::ofstream(file, std::ios::binary) << content;
}

// A run of this many steps that saved each of the last `saves`.
struct SavedRun {
  explicit SavedRun(int steps, const std::string& options = "") {
    const Result result = run(small_resume + "--save-interval 1 --steps " + std::to_string(steps) + " --metrics " + metrics +
                              " --save " + save + " " + options);
    INFO(result.err);
    REQUIRE(result.status == 0);
  }
  std::string checkpoint(int step) const { return save + "/step-0000000" + std::to_string(step); }
  std::string go_on(int steps) const {
    return small_resume + "--steps " + std::to_string(steps) + " --resume --metrics " + metrics + " --save " + save;
  }
  // Returns all files that the run left, and when they were last changed.
  std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder.path(), fs::directory_options::skip_permission_denied)) {
      struct stat info {};
      ::lstat(entry.path().c_str(), &info);
      const bool lock_touches = entry.path() == save;  // the lock changes the folder's time only
      names.push_back(
          entry.path().string() +
          (lock_touches ? "" : " " + std::to_string(info.st_mtim.tv_sec) + "." + std::to_string(info.st_mtim.tv_nsec)));
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  TempFolder folder;
  std::string save = (folder.path() / "run").string(), metrics = (folder.path() / "metrics.jsonl").string();
};

// Turns a checkpoint into the format before there were checksums.
void make_format_2(const fs::path& checkpoint, const std::vector<DataInput>& inputs = {}) {
  DatasetOptions options;
  options.inputs = inputs;
  options.sequence_length = 8;
  test::make_older(checkpoint, 2);
  auto state = nlohmann::ordered_json::parse(read_file(checkpoint / "state.json"));
  state["data"] = sampled_fingerprint(*open_dataset(options));
  std::ofstream(checkpoint / "state.json") << state.dump(1) << '\n';
}

}  // namespace

TEST_CASE("a resumed run passes over a damaged checkpoint, whatever is damaged, and --load names what is") {
  const SavedRun saved(3);
  const fs::path newest = saved.checkpoint(3);
  std::string named;
  SECTION("a tensor's name") {
    replace_in(newest / "rank-00000.safetensors", "embed_tokens", "embed_tokenz");
    named = "rank-00000.safetensors: its header differs from the saved one";
  }
  SECTION("a type") {
    replace_in(newest / "rank-00000.safetensors", "F32", "I32");
    named = "rank-00000.safetensors: its header differs from the saved one";
  }
  SECTION("the vocabulary") {
    replace_in(newest / "config.json", "\"vocab_size\": ", "\"vocab_size\": 1");
    named = "config.json: differs from the saved one";
  }
  SECTION("the seed") {
    replace_in(newest / "state.json", "\"seed\": 0", "\"seed\": 1");
    named = "state.json: differs from the saved one";
  }
  SECTION("a number of a tensor") {
    const auto size = static_cast<std::streamoff>(fs::file_size(newest / "rank-00000.safetensors"));
    std::fstream file(newest / "rank-00000.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(size - 2);
    const int byte = file.get();
    file.seekp(size - 2);
    file.put(static_cast<char>(byte ^ 4));
    named = "rank-00000.safetensors: tensor exp_avg_sq/";
  }
  CHECK_THAT(refused(small_resume + "--load " + newest.string()), Contains(named) && Contains("take another checkpoint"));
  const Result resumed = run(saved.go_on(4));
  INFO(resumed.err);
  CHECK(resumed.status == 0);
  CHECK_THAT(resumed.err, Contains("step-00000003 is skipped: ") && Contains(named) && Contains("resuming after step 2"));
}

TEST_CASE("a resumed run never starts afresh where there are checkpoints, and then touches nothing") {
  const SavedRun saved(2);
  for (const int step : {1, 2}) replace_in(saved.checkpoint(step) + "/config.json", "\"vocab_size\": ", "\"vocab_size\": 1");
  const auto before = saved.left();
  const std::string error = refused(saved.go_on(4));
  CHECK_THAT(error, StartsWith("--save " + saved.save + ": holds 2 checkpoints, but resume can continue from none; ") &&
                        Contains("step-00000002/config.json: differs from the saved one") && Contains("another folder"));
  CHECK(saved.left() == before);
}

TEST_CASE("a resumed run fails where checkpoints cannot be read") {
  if (!permissions_bind()) return;
  const SavedRun saved(2);
  fs::remove_all(saved.checkpoint(1));
  std::string place, named;
  fs::perms left = fs::perms::none;
  SECTION("a file") {
    place = saved.checkpoint(2) + "/rank-00000.safetensors", named = "rank-00000.safetensors: cannot be read";
  }
  SECTION("a checkpoint") { place = saved.checkpoint(2), named = "step-00000002: is not a complete checkpoint: "; }
  SECTION("the folder: names in it can be used, and not listed") {
    place = saved.save, named = "run: cannot be searched for checkpoints";
    left = fs::perms::owner_write | fs::perms::owner_exec;
  }
  const auto before = saved.left();
  const fs::perms usual = fs::status(place).permissions();
  fs::permissions(place, left);
  const Result result = run_bound(saved.go_on(4));
  fs::permissions(place, usual);
  CHECK(result.status == 2);
  CHECK_THAT(result.err, StartsWith("pipetrain: error: ") && Contains(named) && Contains("Permission denied"));
  CHECK(saved.left() == before);
}

TEST_CASE("the weights of a damaged checkpoint begin no new run") {
  const SavedRun saved(1);
  const std::string begin = small_resume + "--steps 1 --model " + saved.checkpoint(1);
  REQUIRE(run(begin).status == 0);
  const fs::path weights = saved.checkpoint(1) + "/rank-00000.safetensors";
  std::fstream(weights, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(static_cast<std::streamoff>(fs::file_size(weights)) - 2)
      .put('\x55');
  CHECK_THAT(refused(begin), Contains("rank-00000.safetensors: tensor ") && Contains("differs from the saved one"));
}

TEST_CASE("a row of the data that was changed is noticed") {
  const TempFolder folder;
  std::string rows;
  for (int row = 0; row < 500; ++row) rows += "{\"text\": \"row " + std::to_string(100 + row) + "\"}\n";
  const std::string data = folder.write("rows.jsonl", rows).string();
  const SavedRun saved(2, "--data " + data);
  replace_in(data, "row 333", "row 334");
  CHECK_THAT(refused(saved.go_on(3) + " --data " + data),
             Contains("step-00000002: was made with other data, with the same number of samples"));
  replace_in(data, "row 334", "row 333");
  CHECK(run(saved.go_on(3) + " --data " + data).status == 0);
}

TEST_CASE("a run resumes from checkpoints of earlier versions with a note, or passes over them if an older one fits") {
  const SavedRun saved(3);
  for (const int step : {1, 2, 3}) make_format_2(saved.checkpoint(step));
  replace_in(saved.checkpoint(3) + "/state.json", "\"seed\": 0", "\"seed\": 1");
  const Result resumed = run(saved.go_on(4));
  INFO(resumed.err);
  CHECK(resumed.status == 0);
  CHECK_THAT(resumed.err, Contains("step-00000003 is skipped: ") && Contains("seed 1, this run has 0") &&
                              Contains("step-00000002 was saved by an earlier version, without checksums") &&
                              Contains("resuming after step 2"));
  for (const int step : {3, 4}) fs::remove_all(saved.checkpoint(step));
  CHECK_THAT(refused(saved.go_on(4) + " --seed 5"),
             Contains("but resume can continue from none") && Contains("step-00000002: was made with seed 0, this run has 5"));
  CHECK_THAT(refused(small_resume + "--load " + saved.checkpoint(1) + " --data " +
                     saved.folder.write("a.txt", std::string(500, 'a')).string()),
             Contains("was made with other data"));
}

TEST_CASE("a run resumes with the optimizer of its checkpoint, and no other accepts the states") {
  SavedRun saved(2, "--optimizer lion");
  const std::string checkpoint = saved.checkpoint(2);
  CHECK(refused(saved.go_on(3)) == "--optimizer adamw: " + checkpoint +
                                       " keeps the states of lion; take that optimizer, or begin a new run with the "
                                       "checkpoint as the model, which takes its weights alone");
  CHECK_THAT(refused(small_resume + "--optimizer adamw --load " + checkpoint), Contains("keeps the states of lion"));
  CHECK_THAT(refused(small_resume + "--save " + saved.save), Contains("holds checkpoints of another run"));
  CHECK(run(saved.go_on(3) + " --optimizer lion").status == 0);
  CHECK(run(small_resume + "--steps 1 --model " + checkpoint).status == 0);

  SavedRun older(2);
  make_format_2(older.checkpoint(2));
  CHECK_THAT(refused(small_resume + "--optimizer lion --load " + older.checkpoint(2)), Contains("keeps the states of adamw"));
  CHECK(run(small_resume + "--steps 3 --load " + older.checkpoint(2)).status == 0);
}

TEST_CASE("a resumed run passes over a checkpoint without checksums that has an impossible step") {
  const SavedRun saved(2);
  make_format_2(saved.checkpoint(2));
  for (const std::string step : {"-1", "0", "1.5", "1", "4611686018427387904"}) {
    const std::string state = saved.checkpoint(2) + "/state.json", whole = read_file(state);
    replace_in(state, "\"step\": 2", "\"step\": " + step);
    CHECK_THAT(refused(small_resume + "--load " + saved.checkpoint(2)), Contains(saved.checkpoint(2)) && Contains("step"));
    CHECK_THAT(run(saved.go_on(2) + " --dry-run").err, Contains("step-00000002 is skipped: "));
    std::ofstream(state) << whole;
  }
}

// docs/training.md says so.
TEST_CASE("a run that was stopped at pp 4 resumes at tp 2 and dp 2, over one process and over four") {
  const TempFolder folder;
  const auto losses = [&](const std::string& name) {
    std::vector<double> found;
    std::ifstream file(folder.path() / (name + ".jsonl"));
    for (std::string line; std::getline(file, line);) found.push_back(nlohmann::json::parse(line).at("loss"));
    return found;
  };
  const auto options = [&](const std::string& name, int steps) {
    return "--device cpu --seq-len 8 --layers 4 --lr-schedule constant --steps " + std::to_string(steps) + " --metrics " +
           (folder.path() / name).string() + ".jsonl --save " + (folder.path() / name).string() + " ";
  };
  REQUIRE(run(options("whole", 4) + "--pp 4 --microbatches 8").status == 0);
  for (const std::string launch : {"", "launch --nproc 4 "}) {
    const std::string name = launch.empty() ? "one" : "four";
    REQUIRE(run(options(name, 2) + "--pp 4 --microbatches 8").status == 0);
    const Result resumed = run(launch + options(name, 4) + "--tp 2 --dp 2 --microbatches 4 --resume");
    INFO(resumed.err);
    REQUIRE(resumed.status == 0);
    CHECK_THAT(resumed.err, Contains("resuming after step 2"));
    const auto expected = losses("whole"), found = losses(name);
    REQUIRE(found.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) CHECK(found[i] == Approx(expected[i]).epsilon(1e-5));
  }
}

TEST_CASE("a run that ended because it had learned has nothing left to do") {
  const TempFolder folder;
  const std::string save = (folder.path() / "run").string();
  const std::string learns = "--device cpu --seq-len 128 --layers 1 --microbatch 200 --microbatches 1 --lr 1e-2 --save " + save;
  const Result learned = run(learns);
  INFO(learned.out << learned.err);
  REQUIRE(learned.status == 0);
  const auto left = names_in(save);
  const Result again = run(learns + " --resume");
  INFO(again.out << again.err);
  CHECK(again.status == 0);
  CHECK_THAT(again.out, StartsWith("nothing left to do: "));
  CHECK(names_in(save) == left);
  CHECK_THAT(refused(learns), Contains(": this run has finished there, with step-"));
}

TEST_CASE("a run into the folder of a finished run is refused with advice how to continue") {
  const SavedRun saved(2);
  const std::string again = small_resume + "--save " + saved.save;
  CHECK(refused(again + " --steps 2") == "--save " + saved.save +
                                             ": this run has finished there, with step-00000002; continue from it with more "
                                             "steps and resume, or give another folder");
  CHECK_THAT(refused(again + " --steps 9"),
             Contains("holds checkpoints of this run, the newest step-00000002; continue from it"));
  CHECK_THAT(refused(again + " --steps 2 --seed 7"), Contains("holds checkpoints of another run, the newest step-00000002"));
  CHECK_THAT(refused(small_resume + "--load " + saved.save),
             StartsWith("--load " + saved.save + ": is a folder of 2 checkpoints; give one of them, such as " + saved.save +
                        "/step-00000002"));
}

TEST_CASE("a checkpoint that cannot be removed whole loses its name, and its rest is removed later") {
  if (!permissions_bind()) return;
  const SavedRun saved(1);
  const fs::path stuck = fs::path(saved.checkpoint(1)) / "stuck";  // its files cannot be removed
  fs::create_directory(stuck);
  std::ofstream(stuck / "file") << "x";
  fs::permissions(stuck, fs::perms::owner_read | fs::perms::owner_exec);
  const Result resumed = run_bound(saved.go_on(2) + " --save-keep 1");
  INFO(resumed.err);
  CHECK(resumed.status == 0);
  CHECK(names_in(saved.save) == std::vector<std::string>{"model", "results.json", "step-00000001.partial", "step-00000002"});
  fs::permissions(saved.save + "/step-00000001.partial/stuck", fs::perms::owner_all);
  CHECK(run(saved.go_on(3)).status == 0);
  CHECK(names_in(saved.save) == std::vector<std::string>{"model", "results.json", "step-00000002", "step-00000003"});
}

TEST_CASE("a run that is killed while it saves resumes from the newest checkpoint, with every step once") {
  const TempFolder folder;
  const std::string save = (folder.path() / "run").string(), metrics = (folder.path() / "m.jsonl").string();
  const std::string options =
      small_resume + "--save-interval 1 --save-keep 2 --resume --save " + save + " --metrics " + metrics;
  const auto saving = [&] {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(save, ignored))
      if (entry.path().extension() == ".partial") return true;
    return false;
  };
  for (int kill = 0; kill < 4; ++kill) {
    LiveRun run(options + " --steps 100000 --lr-schedule constant");
    const std::string going = kill == 0 ? "step 3/" : "resuming after step ";  // by then there is a whole one
    bool killed = false;
    run.wait_until([&] {
      if (!killed && saving() && run.err().find(going) != std::string::npos) killed = true, run.signal(SIGKILL);
      return killed;
    });
    CHECK(run.end_by(SIGKILL) == -1);
    CHECK(run.err().find("is skipped") == std::string::npos);
  }
  const Result ended = run(options + " --steps 1 --lr-schedule constant");
  INFO(ended.err);
  CHECK(ended.status == 0);
  int steps = 0;
  std::ifstream lines(metrics);
  for (std::string line; std::getline(lines, line);) CHECK(line.rfind("{\"step\":" + std::to_string(++steps) + ",", 0) == 0);
  CHECK_THAT(ended.out, StartsWith("nothing left to do: " + std::to_string(steps) + " step"));
  for (const std::string& name : names_in(save)) CHECK((name == "model" || name == "results.json" || name.size() == 13));
}

TEST_CASE("a run that was killed between two renames finds its checkpoint and its model again") {
  const SavedRun saved(1);
  fs::rename(saved.checkpoint(1), saved.save + "/.step-00000001.replaced");
  fs::rename(saved.save + "/model", saved.save + "/.model.replaced");
  std::ofstream(saved.save + "/.model.replaced/tokenizer.json") << "{}";
  const Result resumed = run(saved.go_on(2));
  INFO(resumed.err);
  CHECK(resumed.status == 0);
  CHECK_THAT(resumed.err, Contains("resuming after step 1"));
  CHECK(names_in(saved.save) == std::vector<std::string>{"model", "results.json", "step-00000001", "step-00000002"});
  CHECK(fs::exists(saved.save + "/model/tokenizer.json"));
}
