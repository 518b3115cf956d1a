// Paths that cannot be read or written give one line that names the option, the path, the reason and what to do.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "paths.hpp"

using namespace pipetrain;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;

namespace {

const std::string small_places = "--device cpu --seq-len 8 --layers 1 --microbatches 1 --steps 1 ";

// Root may write to every folder except virtual ones.
const std::string nowhere = "/proc/self/nowhere";

}  // namespace

TEST_CASE("outputs that cannot be written are refused with advice") {
  const std::string tokenizer = test_data() + "/data/tokenizers/fixtures/gpt2.json";
  std::vector<std::string> commands = {"simulate --svg",
                                       "simulate --html",
                                       "simulate --csv",
                                       "simulate --trace",
                                       "simulate --plan-out",
                                       "doctor --measure",
                                       "tune --devices 1 --global-batch 1 --device cpu --plans",
                                       "export --load " + test_data() + " --out",
                                       "tokenize --tokenizer " + tokenizer + " --out"};
  for (const char* record :
       {"--save", "--metrics", "--record", "--report", "--profile", "--trace", "--tensorboard", "--save-config"})
    commands.push_back(small_places + record);
  for (const std::string& command : commands) {
    const std::string option = command.substr(command.rfind("--"));
    for (const std::string& place : {nowhere + "/x.tokens", std::string(300, 'x') + ".tokens"}) {
      const std::string line = refused(command + " " + place);
      CHECK_THAT(line, Contains(option + " ") || Contains(place.substr(0, 10)));
      CHECK_THAT(line, Contains("; "));  // the advice
    }
  }
}

TEST_CASE("inputs that are not there, or lead round in a circle, are refused with what to do") {
  const TempFolder folder;
  const std::string place = folder.path().string() + "/";
  for (const char* ending : {"", ".txt", ".json", ".toml", ".jsonl"})
    fs::create_symlink(std::string("circle") + ending, place + "circle" + ending);
  const std::string llama = "--model " + test_data() + "/golden/llama3_tiny ";
  for (const std::string& command : {small_places + "--data circle.txt",
                                     small_places + "--data circle",
                                     small_places + "--model circle",
                                     small_places + "--load circle",
                                     small_places + "--tokenizer circle",
                                     small_places + "--tokenizer circle.json",
                                     small_places + "--config circle.toml",
                                     small_places + "--schedule circle.txt",
                                     small_places + "--order replay:circle",
                                     small_places + "--eval-data circle.jsonl",
                                     std::string("simulate --costs circle.json"),
                                     std::string("generate --prompt x --model circle"),
                                     "generate " + llama + "--prompts circle",
                                     std::string("tune --devices 1 --model circle"),
                                     std::string("export --out out --load circle"),
                                     std::string("tokenize --show --tokenizer circle.json"),
                                     std::string("replay circle"),
                                     std::string("watch circle"),
                                     std::string("compare circle circle"),
                                     std::string("launch --nproc 2 --pp 2 --token-file circle")}) {
    const Result result =
        run_program("/bin/sh", "-c 'cd " + place + " && exec timeout -s KILL 60 " + program_path() + " " + command + "'");
    INFO(command << ": " << result.out << result.err);
    CHECK(result.status == 2);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    CHECK_THAT(result.err, Contains("circle") && Contains("; ") && !Contains("internal error"));
  }
}

TEST_CASE("a folder of data or of a model in which a name leads round in a circle is refused by that name") {
  const TempFolder folder;
  const auto in = [&](const std::string& name) { return (folder.path() / name).string(); };
  folder.write("data/a.txt", std::string(500, 'a'));
  fs::create_symlink("b.txt", in("data/b.txt"));
  fs::create_directories(in("model"));
  fs::create_symlink("config.json", in("model/config.json"));
  const std::string circle = "Too many levels of symbolic links); its links form a circle: correct them";
  CHECK(refused(small_places + "--data " + in("data")) == in("data/b.txt") + ": cannot be opened (" + circle);
  CHECK_THAT(refused(small_places + "--model " + in("model")),
             Contains(in("model/config.json") + ": cannot be read: Too many levels"));
  CHECK_THAT(refused("tokenize --out " + in("x.tokens") + " --tokenizer " + test_data() +
                     "/data/tokenizers/fixtures/gpt2.json --data " + in("data")),
             Contains(in("data/b.txt")));
  fs::create_directories(in("loop"));
  fs::create_symlink("..", in("loop/up.txt"));  // a folder, of which only files count
  CHECK_THAT(refused(small_places + "--data " + in("loop")), Contains("the folder holds no file of"));
}

TEST_CASE("a token's file without an end, or whose writer never comes, is refused at once") {
  const TempFolder folder;
  const std::string pipe = (folder.path() / "pipe").string(), launch = "launch --nproc 2 --pp 2 --token-file ";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string& file : {std::string("/dev/zero"), pipe})
    CHECK_THAT(refused(launch + file, "ulimit -v 4000000; timeout -s KILL 60"), Contains("is no regular file; give a file"));
  CHECK_THAT(refused(launch + folder.path().string()), Contains("is a folder; give a file"));
  CHECK_THAT(refused(launch + nowhere), Contains("there is no such file; check the path"));
  CHECK_THAT(refused(launch + folder.write("long", std::string(5000, 'x')).string()), Contains("of 1 to 4096 bytes"));
  CHECK_THAT(refused(launch + folder.write("empty", "\n").string()), Contains("of 1 to 4096 bytes"));
}

TEST_CASE("damaged files of a model, a checkpoint and a tokenizer are refused with what to do") {
  const TempFolder folder;
  const std::string save = (folder.path() / "run").string(), model = save + "/model/", step = save + "/step-00000001/";
  REQUIRE(run(small_places + "--save " + save).status == 0);
  const auto damaged = [&](const std::string& file, const std::string& bytes, const std::string& command) {
    const std::string before = read_file(file);
    std::ofstream(file, std::ios::binary) << bytes;
    const std::string line = refused(command);
    INFO(line);
    CHECK_THAT(line, Contains(file));
    CHECK((line.find("; copy") != std::string::npos || line.find(" copy ") != std::string::npos ||
           line.find("take another checkpoint") != std::string::npos || line.find("; give ") != std::string::npos));
    std::ofstream(file, std::ios::binary) << before;
  };
  const std::string from_model = "--steps 1 --device cpu --microbatches 1 --seq-len 8 --model " + save + "/model",
                    from_step = small_places + "--load " + save + "/step-00000001";
  for (const std::string& bytes : {std::string(), std::string("{"), std::string("\0\0\0", 3), std::string(5000, '\xff')}) {
    damaged(model + "config.json", bytes, from_model);
    damaged(model + "model.safetensors", bytes, from_model);
    damaged(step + "state.json", bytes, from_step);
    damaged(step + "config.json", bytes, from_step);
    damaged(step + "rank-00000.safetensors", bytes, from_step);
    damaged(step + "rank-00000.safetensors", bytes, "export --out " + save + "/out --load " + save + "/step-00000001");
    const std::string tokenizer = folder.write("tokenizer.json", "{}").string();
    damaged(tokenizer, bytes, small_places + "--tokenizer " + tokenizer);
  }
}
