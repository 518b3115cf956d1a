// Models whose config.json ties the embeddings, but whose weights have a head of their own.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "model/error_text.hpp"
#include "model/weights/stored_model.hpp"
#include "model/weights/weights_fixture.hpp"
#include "temp_folder.hpp"

namespace pipetrain {
namespace {

using Catch::Matchers::Contains;

// A folder of a tied model with a second copy of its matrix under the head's name.
struct TiedFolder {
  ModelConfig config;
  std::string left_out;  // prefix of names, which files of the bare model omit
  TempFolder folder{};
  Tensors values = load_all(*random_weights(config, 1), config);
  std::vector<float> head = values.at(spec_of(config.family).names.embedding);

  void write(const Shape& head_shape) const {
    std::vector<NamedShape> tensors = logical_tensors(config);
    const std::size_t count = tensors.size();
    tensors.push_back({"lm_head.weight", head_shape});
    const auto fill = [&](std::size_t i, float* out) {
      const auto& from = i == count ? head : values.at(logical_tensors(config)[i].name);
      std::copy_n(from.begin(), tensors[i].shape.elements(), out);
    };
    for (NamedShape& tensor : tensors)
      if (tensor.name.starts_with(left_out)) tensor.name = tensor.name.substr(left_out.size());
    write_tensors(folder.path() / "model.safetensors", tensors, fill);
    folder.write("config.json", hf_config_text(config));
  }
  void write() const { write({config.vocabulary, config.hidden}); }
};

TiedFolder tied_folder() {
  const auto [family, left_out] =
      GENERATE(table<Family, std::string>({{Family::llama, ""}, {Family::gpt2, ""}, {Family::gpt2, "transformer."}}));
  return {.config = small_config(true, family), .left_out = left_out};
}

TEST_CASE("a head that differs from the embedding it is tied to is kept apart, with a note") {
  TiedFolder tied = tied_folder();
  tied.head.back() += 1;
  tied.write();
  std::vector<std::string> notes;
  const ModelConfig config = with_head_of_weights(read_stored_config(tied.folder.path()), tied.folder.path(), notes);
  CHECK_FALSE(config.tied_embeddings);
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0], Contains("config.json ties the embeddings") && Contains("lm_head.weight"));
  Tensors expected = tied.values;
  expected["lm_head.weight"] = tied.head;
  CHECK(load_all(*stored_weights(config, tied.folder.path()), config) == expected);
  CHECK(nlohmann::json::parse(hf_config_text(config))["tie_word_embeddings"] == false);
  // A program that has not asked must not lose it silently.
  CHECK_THAT(input_error([&] { hf_weights(tied.config, tied.folder.path()); }), Contains("tensor lm_head.weight differs"));
}

TEST_CASE("a head that equals the embedding stays tied, without a word") {
  const TiedFolder tied = tied_folder();
  tied.write();
  std::vector<std::string> notes;
  const ModelConfig config = with_head_of_weights(read_stored_config(tied.folder.path()), tied.folder.path(), notes);
  CHECK(config.tied_embeddings);
  CHECK(notes.empty());
  CHECK(load_all(*stored_weights(config, tied.folder.path()), config) == tied.values);
}

TEST_CASE("a tied model's head of another shape is refused by its name") {
  const TiedFolder tied = tied_folder();
  tied.write({tied.config.vocabulary - 1, tied.config.hidden});
  std::vector<std::string> notes;
  CHECK_THAT(input_error([&] { with_head_of_weights(tied.config, tied.folder.path(), notes); }),
             Contains("tensor lm_head.weight has shape [36, 32]"));
}

TEST_CASE("a folder without weights is tied as its config.json says") {
  const TempFolder folder;
  std::vector<std::string> notes;
  CHECK(with_head_of_weights(small_config(true), folder.path(), notes).tied_embeddings);
  CHECK(notes.empty());
}

}  // namespace
}  // namespace pipetrain
