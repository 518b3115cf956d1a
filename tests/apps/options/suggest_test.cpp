#include "apps/foreign/foreign_names.hpp"

#include <string>

#include "apps/foreign/foreign_keys.hpp"
#include "catch.hpp"
#include "core/text/nearest_name.hpp"

using namespace pipetrain;

TEST_CASE("other systems' options are known by our names") {
  CHECK(our_spelling("pipeline-model-parallel-size") == "--pp");
  CHECK(our_spelling("tensor_model_parallel_size") == "--tp");
  CHECK(our_spelling("micro-batch-size") == "--microbatch");
  CHECK(our_spelling("gradient_accumulation_steps") == "--microbatches");
  CHECK(our_spelling("train-iters") == "--steps");
  CHECK(our_spelling("p") == "--pp, --tp, --dp, --zero and --offload");
  CHECK(our_spelling("warmup_min_lr") == "--warmup-init-lr");
  CHECK_FALSE(our_spelling("pp"));
  CHECK_FALSE(our_spelling("lr"));
}

TEST_CASE("keys of other systems' files that map to an option are known on the command line too") {
  for (const auto keys : {megatron_keys(), deepspeed_keys(), torchtitan_keys()}) {
    for (const ForeignKey& key : keys) {
      if (key.rule != ForeignRule::maps || key.key.find('*') != std::string_view::npos) continue;
      const std::string ours(key.target.substr(0, key.target.find(' ')));
      if (normalised_name(key.key) == ours) continue;
      INFO(key.key << " is " << our_spelling(key.key).value_or("not known"));
      const std::string answer = our_spelling(key.key).value_or("");
      const bool known = answer.find("--" + ours) != std::string::npos;
      CHECK(known);
    }
  }
  CHECK(our_spelling("lr-warmup-init") == "--warmup-init-lr");
  CHECK(our_spelling("distributed-backend") == "here --transport chooses; leave it out");
  CHECK(our_spelling("rampup-batch-size") == "the batch has one size; leave it out");
}
