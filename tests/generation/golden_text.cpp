#include "generation/golden_text.hpp"

#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "model/weights/weights.hpp"
#include "paths.hpp"
#include "temp_folder.hpp"

namespace pipetrain::testing {
namespace {

const std::filesystem::path golden = std::filesystem::path(test_data()) / "golden";

class Answers : public DecodingEvents {
 public:
  explicit Answers(std::size_t prompts) : ids(prompts), ends(prompts) {}
  void token(std::size_t prompt, std::int32_t id) override { ids[prompt].push_back(id); }
  void ended(std::size_t prompt, SequenceEnd how) override { ends[prompt] = how; }
  std::vector<Ids> ids;
  std::vector<std::optional<SequenceEnd>> ends;
};

}  // namespace

const nlohmann::json& golden_texts() {
  static const nlohmann::json all = nlohmann::json::parse(std::ifstream(golden / "generate.json"));
  return all.at("cases");
}

std::vector<Ids> prompts_of(const nlohmann::json& one) {
  std::vector<Ids> prompts;
  for (const auto& answer : one.at("answers")) prompts.push_back(answer.at("prompt").get<Ids>());
  return prompts;
}

GenerationJob golden_job(const nlohmann::json& one, int pp, int tp) {
  GenerationJob job;
  const std::filesystem::path folder = golden / one.at("model").get<std::string>();
  auto config = nlohmann::json::parse(std::ifstream(folder / "config.json"));
  config.update(one.at("config"));
  const TempFolder changed;
  std::ofstream(changed.path() / "config.json") << config;
  job.config = read_hf_config(changed.path());
  job.weights = hf_weights(job.config, folder);
  job.pp = pp;
  job.tp = tp;
  job.sequences = 2;
  job.positions = job.config.max_positions;
  return job;
}

std::vector<Ids> answers_of(const GenerationJob& job, const std::vector<Ids>& prompts, const Decoding& decoding) {
  Generator generator(job);
  return decoded(generator, prompts, decoding);
}

std::vector<Ids> decoded(Generator& generator, const std::vector<Ids>& prompts, const Decoding& decoding) {
  Answers answers(prompts.size());
  decode_prompts(generator, prompts, decoding, answers);
  for (const auto& end : answers.ends) CHECK(end.has_value());
  return answers.ids;
}

std::vector<float> logits_after(Generator& generator, const std::vector<SequenceRun>& runs) {
  for (const SequenceRun& run : runs) {
    SequenceRuns step(static_cast<std::size_t>(generator.sequences()));
    step[0] = run;
    generator.step(step);
  }
  std::vector<float> logits;
  generator.read_logits(0, logits);
  return logits;
}

std::vector<SequenceRun> singly(const Ids& ids) {
  std::vector<SequenceRun> runs{{0, {ids.begin(), ids.begin() + 2}}};
  for (std::size_t at = 2; at < ids.size(); ++at) runs.push_back({static_cast<std::int64_t>(at), {ids[at]}});
  return runs;
}

}  // namespace pipetrain::testing
