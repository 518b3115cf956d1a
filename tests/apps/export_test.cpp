// `pipetrain export` writes checkpoints of any layout and format as Hugging Face folders.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "older_checkpoint.hpp"

using namespace pipetrain;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;

namespace {

const std::string small_export = "--device cpu --seq-len 8 --layers 2 --microbatches 2 --steps 2 ";

}  // namespace

TEST_CASE("an exported checkpoint is the model that the run saved, whatever its layout and format") {
  const TempFolder folder;
  const std::string save = (folder.path() / "run").string(), out = (folder.path() / "out").string();
  REQUIRE(run(small_export + "--pp 2 --tp 2 --save " + save).status == 0);
  const std::string load = "export --load " + save + "/step-00000002 --out " + out;
  const Result exported = run(load);
  INFO(exported.err);
  REQUIRE(exported.status == 0);
  CHECK(exported.out == "step 2 of " + save + "/step-00000002 -> " + out + "\n");
  CHECK(names_in(out) == std::vector<std::string>{"config.json", "model.safetensors"});
  const std::string weights = read_file(save + "/model/model.safetensors"), config = read_file(save + "/model/config.json");
  CHECK((read_file(out + "/model.safetensors") == weights));
  CHECK(read_file(out + "/config.json") == config);
  test::make_older(save + "/step-00000002", GENERATE(2, 3));
  REQUIRE(run(load).status == 0);
  CHECK((read_file(out + "/model.safetensors") == weights));
}

TEST_CASE("an exported folder may be in shards, rounded, and is read back") {
  const TempFolder folder;
  const std::string save = (folder.path() / "run").string(), out = (folder.path() / "out").string();
  const std::string tokenizer = folder.write("t/tokenizer_config.json", "{}").parent_path().string();
  REQUIRE(run(small_export + "--save " + save).status == 0);
  const std::string load = "export --load " + save + "/step-00000002 --out " + out;
  REQUIRE(run(load + " --save-dtype bf16 --save-shard-size 200KB --tokenizer " + tokenizer).status == 0);
  const auto index = nlohmann::json::parse(read_file(out + "/model.safetensors.index.json"));
  std::uint64_t largest = 0, files = 0;
  for (const auto& name : names_in(out)) {
    if (!name.ends_with(".safetensors")) continue;
    ++files;
    largest = std::max<std::uint64_t>(largest, fs::file_size(out + "/" + name));
  }
  CHECK(files > 2);
  CHECK(largest < 220'000);
  CHECK(nlohmann::json::parse(read_file(out + "/config.json")).at("torch_dtype") == "bfloat16");
  CHECK(fs::exists(out + "/tokenizer_config.json"));
  CHECK(index.at("metadata").at("total_size").get<std::uint64_t>() ==
        (fs::file_size(save + "/model/model.safetensors") - 8 -
         static_cast<std::uint64_t>(
             *reinterpret_cast<const std::uint64_t*>(read_file(save + "/model/model.safetensors").data()))) /
            2);
  // bf16 values are exact in fp32, so a second rounding changes nothing.
  const std::string again = (folder.path() / "again").string();
  REQUIRE(run("--device cpu --seq-len 8 --microbatches 1 --steps 1 --lr 0 --weight-decay 0 --model " + out + " --save " +
              again + " --save-dtype bf16 --save-shard-size 200KB")
              .status == 0);
  for (const auto& name : names_in(out)) {
    INFO(name);
    if (name != "config.json") CHECK((read_file(out + "/" + name) == read_file(again + "/model/" + name)));
  }
}

TEST_CASE("a failed export says what is wrong, and leaves nothing") {
  const TempFolder folder;
  const std::string save = (folder.path() / "run").string(), out = (folder.path() / "out").string();
  REQUIRE(run(small_export + "--save " + save).status == 0);
  const std::string load = "--load " + save + "/step-00000002 ";
  CHECK_THAT(refused("export --out " + out), Contains("--load: is needed"));
  CHECK_THAT(refused("export " + load), Contains("--out: is needed"));
  CHECK_THAT(refused("export " + load + "--out " + out + " --save-shard-size 5XB"), Contains("is no size of a file"));
  CHECK_THAT(refused("export " + load + "--out " + out + " --save-dtype fp8"), Contains("--save-dtype fp8"));
  CHECK_THAT(refused("export --load " + save + " --out " + out), Contains("is not a complete checkpoint"));
  CHECK_THAT(refused("export " + load + "--out " + save + "/step-00000002"), Contains("--load reads"));
  CHECK_THAT(refused("export --load " + save + "/nothing --out " + out), Contains("no such checkpoint folder"));
  fs::resize_file(save + "/step-00000002/rank-00000.safetensors", 5000);
  CHECK_THAT(refused("export " + load + "--out " + out), Contains("rank-00000.safetensors"));
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE("checkpoints of other programs are refused by name, with advice") {
  TempFolder folder;
  const std::string llmc = folder.write("log/model_00000100.bin", std::string("\xc6\xd7\x34\x01", 4) + "rest").string();
  const std::string megatron = folder.write("megatron/latest_checkpointed_iteration.txt", "100").parent_path().string();
  CHECK_THAT(refused("--load " + llmc), Contains("--load " + llmc + ": is a model file of llm.c") && Contains("--model"));
  CHECK_THAT(refused("--load " + fs::path(llmc).parent_path().string()),
             Contains("is a folder of llm.c's; begin from one of its model files, such as " + llmc + ": --model"));
  for (const char* option : {"--load ", "--model ", "generate --prompt x --model "})
    CHECK_THAT(refused(option + megatron), Contains("is a checkpoint of Megatron-LM") && Contains("Megatron Bridge"));
}
