// Generation on GPUs: fp32 gives transformers' text, bf16 is close to it, and the layout changes nothing.
#include "actors/generation/generator.hpp"
#include "catch.hpp"
#include "core/device.hpp"
#include "core/error.hpp"
#include "generation/golden_text.hpp"
#include "model/config/attention_limits.hpp"
#include "skip.hpp"

namespace pipetrain {
namespace {

using namespace testing;

GenerationJob on_gpus(GenerationJob job, Precision precision = Precision::fp32()) {
  job.devices.kind = DeviceKind::cuda;
  job.precision = precision;
  for (int gpu = 0; gpu < job.pp * job.tp; ++gpu) job.devices.gpus.push_back(gpu);
  return job;
}

// GPUs refuse some models: see check_attention().
bool runs_on_gpus(const nlohmann::json& one) {
  try {
    check_attention(golden_job(one, 1, 1).config, DeviceKind::cuda, DType::f32);
  } catch (const Error&) {
    return false;
  }
  return true;
}

TEST_CASE("greedy text on GPUs in fp32 is transformers', at every pp and tp", "[gpu]") {
  struct Layout {
    int pp, tp;
  };
  int ran = 0;
  for (const auto& [pp, tp] : {Layout{1, 1}, Layout{2, 1}, Layout{1, 2}, Layout{2, 2}}) {
    if (cuda_device_count() < pp * tp) continue;
    ++ran;
    for (const auto& one : golden_texts()) {
      if (!runs_on_gpus(one)) continue;
      INFO(one.at("model") << " pp " << pp << " tp " << tp);
      const auto prompts = prompts_of(one);
      const auto answers = answers_of(on_gpus(golden_job(one, pp, tp)), prompts, {.max_new_tokens = one.at("new_tokens")});
      for (std::size_t i = 0; i < prompts.size(); ++i) CHECK(answers[i] == one.at("answers")[i].at("answer").get<Ids>());
    }
  }
  if (ran == 0) test::skip("there is no GPU");
}

TEST_CASE("logits on a GPU in bf16 come close to those in fp32, whole or position by position", "[gpu]") {
  if (cuda_device_count() < 1) return test::skip("there is no GPU");
  for (const auto& one : golden_texts()) {
    INFO(one.at("model"));
    const Ids ids = prompts_of(one)[1];
    Generator exact(on_gpus(golden_job(one, 1, 1)));
    Generator rounded(on_gpus(golden_job(one, 1, 1), Precision::bf16()));
    const auto expected = logits_after(exact, {{0, ids}});
    double size = 0;
    for (const float logit : expected) size += static_cast<double>(logit) * logit;
    for (const auto& logits : {logits_after(rounded, {{0, ids}}), logits_after(rounded, singly(ids))}) {
      double error = 0;
      for (std::size_t i = 0; i < logits.size(); ++i) error += (logits[i] - expected[i]) * (logits[i] - expected[i]);
      CHECK(error < 0.05 * 0.05 * size);
    }
  }
}

TEST_CASE("logits in bf16 on two GPUs are those on one, to the bit", "[gpu]") {
  if (cuda_device_count() < 2) return test::skip("there are no two GPUs");
  const auto& one = golden_texts()[0];
  const Ids ids = prompts_of(one)[2];
  Generator alone(on_gpus(golden_job(one, 1, 1), Precision::bf16())), both(on_gpus(golden_job(one, 2, 1), Precision::bf16()));
  CHECK(logits_after(alone, {{0, ids}}) == logits_after(both, {{0, ids}}));
}

}  // namespace
}  // namespace pipetrain
