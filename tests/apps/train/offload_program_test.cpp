// Offloading as a user sees it: the same lines of metrics, files and results, refused options, and a model of ten times
// the size that a limit on memory allows without offloading.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "skip.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using nlohmann::json;

namespace {

const std::string small_offload = "--device cpu --seq-len 16 --layers 2 --pp 2 --microbatches 3 ";
const std::string everything =
    "--offload optimizer,parameters,gradients --offload-to " + std::filesystem::temp_directory_path().string();

Result succeeded(const std::string& arguments, const std::string& limit = "") {
  const Result result = run(arguments, limit);
  INFO(arguments << ": " << result.err);
  REQUIRE(result.status == 0);
  return result;
}

// Returns losses and norms of training, and losses of evaluations, in order.
std::vector<double> numbers(const std::string& file) {
  std::vector<double> numbers;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const json row = json::parse(line);
    for (const char* name : {"loss", "grad_norm", "eval_loss"})
      if (row.contains(name)) numbers.push_back(row[name]);
  }
  return numbers;
}

std::string read_all(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("a run with everything on a disk evaluates, saves, resumes and exports like one without") {
  const TempFolder folder;
  const std::string text = folder.path() / "eval.txt";
  std::ofstream(text) << std::string(200, 'a') << " some words to be read " << std::string(200, 'b');
  const auto trained = [&](const std::string& name, const std::string& first, const std::string& second) {
    const std::string at = folder.path() / name;
    const std::string run = small_offload + "--dp 2 --eval-data " + text + " --eval-interval 2 --save-interval 2 --metrics " +
                            at + ".jsonl --save " + at;
    succeeded(run + " --steps 2 " + first);
    succeeded(run + " --steps 4 --resume " + second);
    succeeded("export --load " + at + "/step-00000004 --out " + at + "-model");
    return numbers(at + ".jsonl");
  };
  const std::vector<double> plain = trained("plain", "", "");
  CHECK(plain.size() >= 8);
  CHECK(trained("outside", everything, everything) == plain);
  CHECK(trained("then", "", everything) == plain);
  CHECK(trained("divided", everything + " --zero 3", everything + " --zero 1") == plain);
  const std::string weights = read_all(folder.path() / "plain-model" / "model.safetensors");
  CHECK(weights.size() > 1000);
  for (const char* name : {"outside-model", "then-model", "divided-model"})
    CHECK(read_all(folder.path() / name / "model.safetensors") == weights);
}

TEST_CASE("impossible offloading gives one line") {
  const std::string to = " --offload-to " + std::filesystem::temp_directory_path().string();
  CHECK_THAT(refused(small_offload + "--offload parameters"),
             StartsWith("--offload parameters: a CPU's memory is the host's already"));
  CHECK_THAT(refused(small_offload + "--offload parameters --order ready" + to),
             StartsWith("--order ready: offloaded weights are fetched in the plan's order; use planned"));
  const TempFolder folder;
  const std::string missing = (folder.path() / "missing").string(), file = folder.write("file", "").string();
  CHECK_THAT(refused(small_offload + "--offload parameters --offload-to /proc"),
             StartsWith("--offload-to /proc: its file system has no direct I/O"));
  CHECK(refused(small_offload + "--offload parameters --offload-to " + missing) ==
        "--offload-to " + missing +
            ": no file can be made in it (No such file or directory); make it first, or give another folder");
  CHECK(refused(small_offload + "--offload parameters", "PIPETRAIN_OFFLOAD_TO=" + file) ==
        "PIPETRAIN_OFFLOAD_TO: --offload-to " + file +
            ": no file can be made in it (Not a directory); give a folder that can be written");
  if (::geteuid() != 0) {
    const TempFolder closed;
    std::filesystem::permissions(closed.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
    CHECK(refused(small_offload + "--offload parameters --offload-to " + closed.path().string()) ==
          "--offload-to " + closed.path().string() +
              ": no file can be made in it (Permission denied); give a folder that can be written");
  }
  CHECK_THAT(
      refused(small_offload + "--model llama2-70b --init random --layers 80 --offload parameters,optimizer,gradients" + to),
      Contains("make room, or take another disk"));
}

TEST_CASE("a model of ten times what memory has room for without trains with all of it on a disk", "[slow]") {
  // One arena, because the C library reserves 64 MiB of address space for each thread's arena, which counts but holds nothing.
  const std::string limit = "export MALLOC_ARENA_MAX=1; ulimit -v 800000;";
  if (run("--version", limit).status != 0) return test::skip("the program does not start in so little memory");
  const TempFolder folder;
  const auto arguments = [&](int layers) {
    const auto model = folder.path() / std::to_string(layers);
    std::filesystem::create_directory(model);
    std::ofstream(model / "config.json") << json{{"model_type", "llama"},
                                                 {"architectures", {"LlamaForCausalLM"}},
                                                 {"hidden_size", 512},
                                                 {"num_hidden_layers", layers},
                                                 {"num_attention_heads", 8},
                                                 {"num_key_value_heads", 8},
                                                 {"intermediate_size", 2048},
                                                 {"vocab_size", 512},
                                                 {"max_position_embeddings", 128},
                                                 {"rms_norm_eps", 1e-5},
                                                 {"tie_word_embeddings", false}};
    return "--model " + model.string() + " --init random --device cpu --seq-len 64 --microbatches 2 --steps 2 ";
  };
  // Without offloading, `most` layers fit, and one more is refused.
  int most = 4;
  while (run(arguments(most + 1) + "--dry-run", limit).status == 0) ++most;
  CHECK_THAT(run(arguments(most + 1), limit).err, Contains("the run needs about"));
  const auto file = folder.path() / "metrics.jsonl";
  succeeded(arguments(10 * most) + "--recompute full --metrics " + file.string() +
                " --offload optimizer,parameters,gradients --offload-to " + folder.path().string(),
            limit);
  const std::vector<double> got = numbers(file);
  REQUIRE(got.size() == 4);
  CHECK(got[2] < got[0]);
}

TEST_CASE("offload auto places data on a disk where memory is short, changes no number, and refuses what fits nowhere") {
  const TempFolder folder;
  const std::string work = "--device cpu --threads 1 --layers 2 --seq-len 16 --microbatches 2 --steps 2 ";
  const auto placed = [&](const std::string& memory) {
    return work + "--offload auto --offload-to " + folder.path().string() + (memory.empty() ? "" : " --memory " + memory);
  };
  const std::string metrics = (folder.path() / "metrics.jsonl").string(), plain = (folder.path() / "plain.jsonl").string();
  succeeded(work + "--metrics " + plain);
  const Result roomy = succeeded(placed("") + " --dry-run");
  CHECK_THAT(roomy.err, Contains("offload auto: none, of 8 placements"));
  const Result narrow = succeeded(placed("0.007") + " --metrics " + metrics);
  CHECK_THAT(narrow.err, Contains("offload auto: ") && !Contains("offload auto: none"));
  CHECK(numbers(metrics) == numbers(plain));
  const Result none = run(placed("0.001"));
  CHECK(none.status == 1);
  CHECK_THAT(none.err, StartsWith("pipetrain: error: offload auto: no placement of the run's data fits"));
}

// The rate is given as a hundred times that of a disk, so that the first choice moves too much.
TEST_CASE("offload auto corrects its choice once by the first steps' times, and changes no number", "[slow][alone]") {
  const TempFolder folder;
  const std::string work =
      "--device cpu --threads 1 --layers 4 --seq-len 64 --microbatches 8 --steps 9 --schedule gpipe --log-interval 1000 ";
  const std::string metrics = (folder.path() / "metrics.jsonl").string(), plain = (folder.path() / "plain.jsonl").string();
  succeeded(work + "--metrics " + plain);
  const Result corrected =
      succeeded(work + "--offload auto --memory 0.024 --offload-bandwidth 100 --offload-to " + folder.path().string() +
                " --save " + (folder.path() / "run").string() + " --metrics " + metrics);
  INFO(corrected.err);
  const std::string change = "relayout: after step 5: offload ";
  const auto at = corrected.err.find(change);
  REQUIRE(at != std::string::npos);
  CHECK(corrected.err.find(change, at + 1) == std::string::npos);
  CHECK(numbers(metrics) == numbers(plain));
}
