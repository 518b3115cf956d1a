// Rows of preferences: pairs of completions, and completions with labels.
#include <set>

#include "catch.hpp"
#include "core/labels/context_label.hpp"
#include "data/byte_level_file.hpp"
#include "data/input_error.hpp"
#include "data/open_dataset.hpp"
#include "data/samples/sampler.hpp"
#include "data/samples/split.hpp"
#include "data/tokenizers/tokenizer.hpp"
#include "files/json_value.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

struct PreferenceFile {
  PreferenceReading reading = {};
  TempFolder folder = TempFolder();

  std::unique_ptr<Dataset> open(const std::string& rows) const {
    DatasetOptions options;
    options.inputs = {{folder.write("rows.jsonl", rows), {}}};
    options.vocabulary = 320;
    options.preferences = reading;
    return open_dataset(options);
  }
  std::string error(const std::string& rows) const {
    return test::input_error(folder, [&] { open(rows); });
  }
};

std::string text_of(const std::vector<std::int32_t>& ids) {
  std::string text;
  for (const std::int32_t id : ids) text += id == 256 ? "$" : std::string(1, static_cast<char>(id));
  return text;
}

// The tokens that count in the loss.
std::vector<std::int32_t> counted(const Dataset& data, std::int64_t index) {
  Sample sample;
  data.read(index, sample);
  std::vector<std::int32_t> ids;
  for (const std::int32_t label : sample.labels)
    if (label >= 0) ids.push_back(label);
  return ids;
}
std::string learned(const Dataset& data, std::int64_t index) { return text_of(counted(data, index)); }

const std::string pair = R"({"prompt": "Q: ", "chosen": "yes", "rejected": "nono"})";

}  // namespace

TEST_CASE("a pair is two samples with the same prompt, of which the completion and its end count") {
  const PreferenceFile file;
  const auto data = file.open(pair + "\n" + R"({"prompt": "", "chosen": "ab", "rejected": "c", "score": 3})");
  CHECK(data->samples_per_row() == 2);
  REQUIRE(data->size() == 4);
  CHECK(text_of(data->read(0)) == "Q: yes$");
  CHECK(text_of(data->read(1)) == "Q: nono$");
  CHECK(learned(*data, 0) == "yes$");
  CHECK(learned(*data, 1) == "nono$");
  CHECK(data->measure(1) == SampleSize{7, 5, 3, true});
  CHECK(learned(*data, 2) == "b$");  // the first token of a text is never predicted
  CHECK(data->sequence_length() == 7);
}

TEST_CASE("the prompt of a chosen completion has context labels where the loss counts them") {
  const PreferenceFile file{.reading = {PreferenceForm::pairs, true}};
  const auto data = file.open(pair);
  Sample sample;
  data->read(0, sample);
  CHECK(sample.labels == std::vector<std::int32_t>{context_label(':'), context_label(' '), 'y', 'e', 's', 256});
  data->read(1, sample);
  CHECK(sample.labels == std::vector<std::int32_t>{-100, -100, 'n', 'o', 'n', 'o', 256});
}

TEST_CASE("a completion with a label knows its prompt and whether it is desirable") {
  const PreferenceFile file{.reading = {PreferenceForm::labelled}};
  const auto data = file.open(R"({"prompt": "Q: ", "completion": "yes", "label": true}
{"prompt": "Longer: ", "completion": "n", "label": false})");
  CHECK(data->samples_per_row() == 1);
  CHECK(data->measure(0) == SampleSize{6, 4, 3, true});
  CHECK(data->measure(1) == SampleSize{9, 2, 8, false});
  CHECK(data->sequence_length() == 11);  // the longest prompt with the longest completion
}

TEST_CASE("messages of preferences are rendered by the chat template, with or without a prompt of their own") {
  const PreferenceFile file;
  file.folder.write("tokenizer.json", test::byte_level_file());
  const std::string chatml =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  file.folder.write("tokenizer_config.json", Json::object({{"chat_template", chatml}, {"eos_token", "<|im_end|>"}}).dump());
  const auto tokenizer = open_tokenizer(file.folder.path());
  const std::string user = R"({"role": "user", "content": "Hi"})", good = R"({"role": "assistant", "content": "Hello"})",
                    bad = R"({"role": "assistant", "content": "No"})";
  for (const std::string& row : {R"({"prompt": [)" + user + R"(], "chosen": [)" + good + R"(], "rejected": [)" + bad + "]}",
                                 R"({"chosen": [)" + user + "," + good + R"(], "rejected": [)" + user + "," + bad + "]}",
                                 R"({"prompt": "Hi", "chosen": [)" + user + "," + good + R"(], "rejected": [)" + user + "," +
                                     bad + R"(], "messages": [)" + user + "," + good + "]}"}) {
    INFO(row);
    DatasetOptions options;
    options.inputs = {{file.folder.write("rows.jsonl", row), {}}};
    options.tokenizer = file.folder.path();
    options.vocabulary = 1000;
    options.preferences = PreferenceReading{};
    const auto data = open_dataset(options);
    CHECK(tokenizer->decode(data->read(0), SpecialTokens::keep) ==
          "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n");
    CHECK(tokenizer->decode(counted(*data, 1), SpecialTokens::keep) == "No<|im_end|>\n");
  }
}

TEST_CASE("a wrong row of preferences is refused with its file and line") {
  const PreferenceFile pairs;
  const auto error = [&](const std::string& row) { return pairs.error(pair + "\n" + row); };
  CHECK_THAT(error(R"({"prompt": "a", "chosen": "b"})"),
             StartsWith("rows.jsonl:2: this row has no \"rejected\"; write one row "));
  CHECK_THAT(error(R"({"prompt": "a", "chosen": "", "rejected": "c"})"), StartsWith("rows.jsonl:2: \"chosen\" is empty"));
  CHECK_THAT(error(R"({"prompt": "a", "chosen": 3, "rejected": "c"})"),
             StartsWith("rows.jsonl:2: \"chosen\" is neither a string nor an array of messages"));
  CHECK_THAT(error(R"({"chosen": "b", "rejected": "c"})"),
             StartsWith("rows.jsonl:2: \"prompt\" must be there, and be a string"));
  CHECK_THAT(error(R"({"prompt": "a", "chosen": "b", "rejected": [{"role": "user", "content": "c"}]})"),
             StartsWith("rows.jsonl:2: one of \"chosen\" and \"rejected\" is a string and the other an array"));
  CHECK_THAT(error(R"({"prompt": "a", "chosen": "b", "rejected": "c", "images": ["x"]})"),
             StartsWith("rows.jsonl:2: \"images\" is not read"));
  CHECK_THAT(error(R"({"prompt": "a", "chosen": "b", "rejected": "c", "weight": 2})"),
             StartsWith("rows.jsonl:2: \"weight\" is not read"));
  CHECK_THAT(error("[1]"), StartsWith("rows.jsonl:2: this row is not a JSON object; write one row "));
  CHECK_THAT(error(R"({"chosen": [{"role": "user", "content": "a"}], "rejected": [{"role": "user", "content": "b"}]})"),
             StartsWith("rows.jsonl:2: \"chosen\" and \"rejected\" begin with different messages"));
  const PreferenceFile labelled{.reading = {PreferenceForm::labelled}};
  CHECK_THAT(labelled.error(R"({"prompt": "a", "completion": "b", "label": 1})"),
             StartsWith("rows.jsonl:1: \"label\" must be there, and be true or false"));
  CHECK_THAT(labelled.error(pair), StartsWith("rows.jsonl:1: this row has no \"completion\""));
}

TEST_CASE("preferences are not packed, and pairs are not mixed by weights") {
  const PreferenceFile file;
  DatasetOptions options;
  options.inputs = {{file.folder.write("rows.jsonl", pair), {}}, {file.folder.write("more.jsonl", pair), 2.0}};
  options.vocabulary = 320;
  options.preferences = PreferenceReading{};
  CHECK_THAT(test::input_error(file.folder, [&] { open_dataset(options); }), Contains("weights draw samples one by one"));
  options.inputs.pop_back();
  options.pack = Pack::documents;
  CHECK_THAT(test::input_error(file.folder, [&] { open_dataset(options); }), Contains("leave packing out"));
}

TEST_CASE("a shuffle and a split keep pairs together") {
  const Sampler sampler(40, {.dp = 1, .microbatches = 5, .microbatch = 4}, true, 3, 2);
  std::set<std::int64_t> seen;
  for (std::int64_t step = 0; step < 2; ++step) {
    const auto batch = sampler.global_batch(step);
    for (std::size_t i = 0; i < batch.size(); i += 2) {
      CHECK(batch[i] % 2 == 0);
      CHECK(batch[i + 1] == batch[i] + 1);
      seen.insert(batch[i]);
    }
  }
  CHECK(seen.size() == 20);
  const PreferenceFile file;
  std::string rows;
  for (int i = 0; i < 10; ++i) rows += R"({"prompt": "p", "chosen": "c)" + std::to_string(i) + R"(", "rejected": "r"})" + "\n";
  const DataSplit split = split_dataset(file.open(rows), 0.3, 5);
  CHECK(split.training->size() == 14);
  CHECK(split.evaluation->size() == 6);
  CHECK(split.evaluation->samples_per_row() == 2);
  for (std::int64_t i = 0; i < 6; i += 2) {
    CHECK_THAT(learned(*split.evaluation, i), StartsWith("c"));
    CHECK_THAT(learned(*split.evaluation, i + 1), StartsWith("r"));
  }
}
