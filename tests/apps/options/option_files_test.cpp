// Outputs that would overwrite inputs, or each other, are refused before anything is written.
#include <filesystem>
#include <string>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "paths.hpp"

using namespace pipetrain;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace {

const std::string small_options = "--device cpu --seq-len 8 --microbatches 1 ";

// A model, a checkpoint of it, and one of every other kind of input file.
struct Inputs {
  Inputs() {
    const Result trained =
        run(small_options + "--layers 1 --steps 2 --save " + place + "run --profile " + place + "costs.json");
    INFO(trained.err);
    REQUIRE(trained.status == 0);
    fs::rename(place + "run/model", place + "m");
    folder.write("d/a.txt", std::string(500, 'a'));
    folder.write("b.txt", std::string(500, 'b'));
    folder.write("c.toml", "seed = 1\n");
    folder.write("d.toml", "threads = 1\n");
    REQUIRE(run("simulate --pp 2 --plan-out " + place + "plan.txt").status == 0);
  }
  std::string all_bytes() const {
    std::string bytes;
    for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
      if (entry.is_regular_file()) bytes += entry.path().string() + read_file(entry.path());
    return bytes;
  }

  TempFolder folder;
  std::string place = folder.path().string() + "/";
};

}  // namespace

TEST_CASE("an output over an input is refused, whatever it is called") {
  const Inputs inputs;
  const std::string& at = inputs.place;
  fs::create_symlink("m", at + "link");
  fs::create_symlink("b.txt", at + "link.txt");
  fs::create_hard_link(at + "m/config.json", at + "hard.json");
  fs::rename(at + "m/model.safetensors", at + "blob");  // the layout of model caches
  fs::create_symlink("../blob", at + "m/model.safetensors");
  const std::string before = inputs.all_bytes();

  const std::string model = small_options + "--model " + at + "m ",
                    load = small_options + "--layers 1 --load " + at + "run/step-00000002 ";
  for (const std::string output : {"--metrics ", "--trace ", "--profile "}) {
    for (const std::string file : {"m/config.json", "link/config.json", "hard.json", "blob", "m/model.safetensors"})
      CHECK_THAT(refused(model + output + at + file), Contains(output + at) && Contains("--model reads"));
    CHECK_THAT(refused(model + output + at + "m/new"), EndsWith("is in the folder that --model reads; give a path outside it"));
    CHECK_THAT(refused(load + output + at + "run/step-00000002/state.json"), Contains(output) && Contains("--load reads"));
  }
  const std::string data = small_options + "--data " + at + "d " + at + "b.txt:2 ";
  for (const std::string file : {"d/a.txt", "d/new.txt", "b.txt", "link.txt"})
    CHECK_THAT(refused(data + "--metrics " + at + file), Contains("--data reads"));
  CHECK_THAT(refused(small_options + "--config " + at + "c.toml --trace " + at + "c.toml"),
             Contains("--config reads there too"));
  CHECK_THAT(refused("--device cpu --pp 2 --schedule " + at + "plan.txt --trace " + at + "plan.txt"),
             Contains("--schedule reads there too"));
  CHECK_THAT(refused("simulate --schedule " + at + "plan.txt --plan-out " + at + "plan.txt"),
             Contains("--schedule reads there too"));
  CHECK_THAT(refused("simulate --costs " + at + "costs.json --trace " + at + "costs.json"),
             Contains("--costs reads there too"));
  CHECK_THAT(refused("simulate --pp 2 --model " + at + "m --svg " + at + "m/config.json"), Contains("--model reads"));
  CHECK_THAT(refused("doctor --config " + at + "d.toml --measure " + at + "d.toml"), Contains("--config reads there too"));
  CHECK_THAT(refused("tune --devices 2 --model " + at + "m --plans " + at + "m"), Contains("--model reads there too"));
  CHECK(inputs.all_bytes() == before);
}

TEST_CASE("a folder to save to that would damage what is read is refused") {
  const Inputs inputs;
  const std::string& at = inputs.place;
  const std::string before = inputs.all_bytes();
  const std::string model = small_options + "--model " + at + "m ",
                    load = small_options + "--layers 1 --load " + at + "run/step-00000002 ";
  CHECK_THAT(refused(model + "--save " + at + "m"), Contains("--save") && Contains("--model reads there too"));
  CHECK_THAT(refused(load + "--save " + at + "run/step-00000002"), Contains("--load reads there too"));
  CHECK_THAT(refused(load + "--save " + at + "run/step-00000002/x/y"), Contains("is in the checkpoint that --load reads"));
  CHECK_THAT(refused(small_options + "--data " + at + "d --save " + at + "d"), Contains("--data reads there too"));
  for (const std::string file : {"step-00000002/state.json", "step-00000009/x", "model/x", ".pipetrain.lock"}) {
    const fs::path path = at + "run/" + file;
    if (!fs::exists(path.parent_path())) continue;
    CHECK_THAT(refused(small_options + "--layers 1 --resume --save " + at + "run --metrics " + path.string()),
               Contains("is where --save writes its model and checkpoints"));
  }
  CHECK_THAT(refused(small_options + "--save /"), Contains("is the root of the file system; give a folder of its own"));
  CHECK(inputs.all_bytes() == before);

  fs::rename(at + "m", at + "run/model");
  CHECK_THAT(refused(small_options + "--resume --model " + at + "run/model --save " + at + "run"),
             Contains("would replace") && Contains("which --model reads"));
  CHECK(run(small_options + "--steps 1 --model " + at + "run/model --save " + at + "other --metrics " + at + "other.jsonl")
            .status == 0);
}

TEST_CASE("two outputs on one file, or one where stdout goes, are refused") {
  const TempFolder folder;
  const std::string at = folder.path().string() + "/";
  fs::create_symlink("same", at + "link");
  fs::create_symlink(".", at + "here");
  CHECK_THAT(refused("simulate --svg " + at + "same --html " + at + "link"), Contains("--svg writes there too"));
  CHECK_THAT(refused("simulate --svg " + at + "same --html " + at + "here/link"), Contains("--svg writes there too"));
  folder.write("same", "old");
  fs::create_hard_link(at + "same", at + "hard");
  CHECK_THAT(refused("simulate --svg " + at + "same --html " + at + "hard"), Contains("--svg writes there too"));
  CHECK(read_file(at + "same") == "old");

  fs::create_symlink("/proc/self/fd/1", at + "stdout");
  const auto own_stdout = [&](const std::string& options) {
    const auto script = folder.write("script.sh", "'" + program_path() + "' simulate " + options + " > " + at + "out\n");
    return run_program("/bin/bash", script.string());
  };
  CHECK_THAT(own_stdout("--csv " + at + "out").err, Contains("--csv " + at + "out: stdout goes there too"));
  CHECK_THAT(own_stdout("--csv " + at + "stdout --svg " + at + "out").err, Contains("stdout goes there too"));
  CHECK(own_stdout("--csv " + at + "stdout --svg " + at + "stdout").status == 0);
  CHECK(run("simulate --svg /dev/null --html /dev/null").status == 0);
}
