// Prompts that use different adapters of one model at the same time: against PEFT's text (tests/golden/generate_adapters.py),
// and, between layouts and between one adapter and several, bit by bit.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "generation/golden_text.hpp"
#include "model/weights/peft/peft_config.hpp"
#include "model/weights/peft_folder.hpp"
#include "paths.hpp"

namespace pipetrain {
namespace {

using namespace testing;
using nlohmann::json;

const json& adapted_texts() {
  static const json all = json::parse(std::ifstream(test_data() + "/golden/generate_adapters.json"));
  return all.at("cases");
}

GenerationAdapter golden_adapter(const ModelConfig& config, const std::string& name) {
  const std::filesystem::path folder = test_data() + "/golden/adapters/" + name + "/adapter";
  ModelConfig adapted = with_peft_config(config, folder);
  auto weights = peft_weights(adapted, folder);
  return {name, std::move(adapted), std::move(weights)};
}

// Has these adapters of the case's model in this order.
GenerationJob adapted_job(const json& one, int pp, int tp, const std::vector<std::string>& adapters) {
  GenerationJob job = golden_job(one, pp, tp);
  for (const std::string& name : adapters) job.adapters.push_back(golden_adapter(job.config, name));
  return job;
}

// Returns the number of each answer's adapter among these.
std::vector<int> adapters_of(const json& one, const std::vector<std::string>& names) {
  std::vector<int> numbers;
  for (const json& answer : one.at("answers")) {
    const auto found = std::ranges::find(names, answer.at("adapter").get<std::string>());
    numbers.push_back(found == names.end() ? 0 : static_cast<int>(found - names.begin()) + 1);
  }
  return numbers;
}

std::vector<float> first_logits(const GenerationJob& job, const Ids& prompt, int adapter) {
  Generator generator(job);
  return logits_after(generator, {{0, prompt, 0, adapter}});
}

TEST_CASE("prompts with different adapters at the same time get PEFT's greedy text, at every pp and tp", "[adapters]") {
  struct Layout {
    int pp, tp, sequences;
  };
  for (const json& one : adapted_texts()) {
    const auto names = one.at("adapters").get<std::vector<std::string>>();
    const Decoding decoding{
        .sampling = {}, .max_new_tokens = one.at("new_tokens"), .end_ids = {}, .adapters = adapters_of(one, names)};
    for (const auto& [pp, tp, sequences] :
         {Layout{1, 1, 6}, Layout{2, 1, 3}, Layout{4, 1, 4}, Layout{1, 2, 2}, Layout{3, 2, 6}}) {
      INFO(one.at("model") << " pp " << pp << " tp " << tp << ", " << sequences << " at the same time");
      GenerationJob job = adapted_job(one, pp, tp, names);
      job.sequences = sequences;
      const auto answers = answers_of(job, prompts_of(one), decoding);
      for (std::size_t i = 0; i < answers.size(); ++i) CHECK(answers[i] == one.at("answers")[i].at("answer").get<Ids>());
    }
  }
}

TEST_CASE("logits of an adapter are PEFT's, with the same bits beside others, in any order and at every pp", "[adapters]") {
  for (const json& one : adapted_texts()) {
    const auto names = one.at("adapters").get<std::vector<std::string>>();
    const std::vector<std::string> reversed(names.rbegin(), names.rend());
    for (const json& answer : one.at("answers")) {
      const std::string name = answer.at("adapter");
      INFO(one.at("model") << " " << name);
      const Ids prompt = answer.at("prompt");
      const bool is_base = name == "base";
      const auto number = [&](const std::vector<std::string>& in) {
        return is_base ? 0 : static_cast<int>(std::ranges::find(in, name) - in.begin()) + 1;
      };
      const auto alone = first_logits(adapted_job(one, 1, 1, is_base ? std::vector<std::string>{} : std::vector{name}), prompt,
                                      is_base ? 0 : 1);
      const std::vector<double> expected = answer.at("logits");
      for (std::size_t i = 0; i < expected.size(); ++i) CHECK(alone[i] == Approx(expected[i]).margin(2e-5));
      CHECK(first_logits(adapted_job(one, 1, 1, names), prompt, number(names)) == alone);
      CHECK(first_logits(adapted_job(one, 3, 1, reversed), prompt, number(reversed)) == alone);
    }
  }
}

TEST_CASE("adapters of a further prediction's layer are left unread", "[adapters]") {
  GenerationJob job = golden_job({{"model", "deepseek_v3_mtp_tiny"}, {"config", nlohmann::json::object()}}, 2, 1);
  job.adapters.push_back(golden_adapter(job.config, "deepseek_v3_mtp"));
  const Ids prompt{3, 14, 15, 9};
  CHECK(first_logits(job, prompt, 0) != first_logits(job, prompt, 1));
}

TEST_CASE("adapters add their own weights to the memory of generation, and nothing else", "[adapters]") {
  const json& one = adapted_texts()[0];
  const auto parameters = [&](const std::vector<std::string>& names) {
    std::size_t bytes = 0;
    for (const auto& device : estimate_generation(adapted_job(one, 2, 1, names)).devices) bytes += device.memory.parameters;
    return bytes;
  };
  const std::size_t base = parameters({}), first = parameters({"llama3"}) - base, second = parameters({"llama3_dora"}) - base;
  CHECK(first > 0);
  CHECK(first < base / 4);
  CHECK(parameters({"llama3", "llama3_dora"}) == base + first + second);
}

}  // namespace
}  // namespace pipetrain
