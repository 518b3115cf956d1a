// Every golden model, damaged in every way that people meet, is refused in one line.
#include "model/weights/bad_folder.hpp"
#include "catch.hpp"
#include "model/error_text.hpp"
#include "model/weights/stored_model.hpp"
#include "temp_folder.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using test::RawFolder;

std::string folder_error(const fs::path& folder) {
  return input_error([&] {
    std::vector<std::string> notes;
    stored_weights(with_head_of_weights(read_stored_config(folder), folder, notes), folder);
  });
}

TEST_CASE("each golden model loads, in one file and in shards, and is refused in one line after each kind of damage") {
  for (const std::string& name : test::golden_models()) {
    INFO(name);
    const RawFolder model(test::golden_folder(name));
    const TempFolder folder;
    model.write(folder.path() / "one");
    CHECK(folder_error(folder.path() / "one").empty());
    model.write_shards(folder.path() / "shards");
    CHECK(folder_error(folder.path() / "shards").empty());
    for (const test::Damage& damage : test::damages()) {
      INFO(damage.name);
      const fs::path damaged = folder.path() / damage.name;
      const std::string line = damage.apply(model, damaged);
      if (line.empty()) continue;
      const std::string error = folder_error(damaged);
      CHECK_THAT(error, Contains(line));
      CHECK_THAT(error, Contains(damaged.string()));
    }
  }
}

TEST_CASE("weights that contradict a flag of ties keep their own head, with a note") {
  for (const std::string& name : test::golden_models()) {
    INFO(name);
    RawFolder model(test::golden_folder(name));
    if (!model.tensors.contains("lm_head.weight")) continue;
    model.config["tie_word_embeddings"] = true;
    const TempFolder folder;
    model.write(folder.path());
    std::vector<std::string> notes;
    CHECK_FALSE(with_head_of_weights(read_stored_config(folder.path()), folder.path(), notes).tied_embeddings);
    REQUIRE(notes.size() == 1);
    CHECK_THAT(notes[0], Contains("config.json ties the embeddings, but the weights hold lm_head.weight"));
  }
}

}  // namespace
}  // namespace pipetrain
