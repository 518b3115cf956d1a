#include "apps/options/suggest.hpp"

#include "catch.hpp"

using namespace pipetrain;

TEST_CASE("other systems' options are known by our names") {
  CHECK(our_spelling("pipeline-model-parallel-size") == "--pp");
  CHECK(our_spelling("tensor_model_parallel_size") == "--tp");
  CHECK(our_spelling("micro-batch-size") == "--microbatch");
  CHECK(our_spelling("gradient_accumulation_steps") == "--microbatches");
  CHECK(our_spelling("train-iters") == "--steps");
  CHECK(our_spelling("p") == "--pp, --tp and --dp");
  CHECK_FALSE(our_spelling("pp"));
}
