#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "catch.hpp"
#include "core/error.hpp"
#include "model/error_text.hpp"
#include "model/weights/weights_fixture.hpp"
#include "run_program.hpp"
#include "temp_folder.hpp"

namespace pipetrain {
namespace {

TEST_CASE("saving replaces an older model and keeps what else its folder holds") {
  const TempFolder folder;
  const ModelConfig config = small_config();
  const fs::path model = folder.path() / "model";
  save(config, model, 1);
  fs::create_directory(model / "notes");
  std::ofstream(model / "notes/a.txt") << "note";
  std::ofstream(model / "tokenizer.json") << "{}";
  std::ofstream(model / "model-00002-of-00002.safetensors") << "an older shard";
  fs::create_directory(folder.path() / "model.partial");  // left by a killed run
  std::ofstream(folder.path() / "model.partial/model.safetensors") << "half";

  save(config, model / "", 2);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"model"});
  CHECK(names_in(model) == std::vector<std::string>{"config.json", "model.safetensors", "notes", "tokenizer.json"});
  CHECK(read_file(model / "notes/a.txt") == "note");
  CHECK(load_all(*hf_weights(config, model), config) == load_all(*random_weights(config, 2), config));
}

TEST_CASE("an older model that a killed run had moved aside is restored with its other files") {
  const TempFolder folder;
  const ModelConfig config = small_config();
  const fs::path model = folder.path() / "model", aside = folder.path() / ".model.replaced";
  save(config, model, 1);
  std::ofstream(model / "tokenizer.json") << "{}";
  fs::rename(model, aside);
  save(config, model, 2);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"model"});
  CHECK(names_in(model) == std::vector<std::string>{"config.json", "model.safetensors", "tokenizer.json"});
  fs::create_directory(aside);  // killed while it removed what it had replaced
  check_hf_target(model);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"model"});
}

TEST_CASE("a failed save leaves everything as it was") {
  const TempFolder folder;
  const ModelConfig config = small_config();
  const fs::path model = folder.path() / "model";
  save(config, model);
  const std::string before = read_file(model / "model.safetensors");
  const auto broken = [](std::size_t i, float*) {
    if (i == 3) throw Error(ErrorKind::peer_lost, "gone");
  };
  CHECK_THROWS_WITH(save_hf_model(config, model, broken), "gone");
  CHECK_THROWS_WITH(save_hf_model(config, folder.path() / "a/b/c", broken), "gone");
  CHECK(names_in(folder.path()) == std::vector<std::string>{"model"});
  CHECK(read_file(model / "model.safetensors") == before);
}

TEST_CASE("paths that cannot be written are refused before and at saving") {
  const TempFolder folder;
  const ModelConfig config = small_config();
  const auto check = [&](const fs::path& place, const std::string& message) {
    const std::string expected = place.string() + ": " + message;
    CHECK(input_error([&] { check_hf_target(place); }) == expected);
    CHECK(input_error([&] { save(config, place); }) == expected);
  };
  const fs::path file = folder.write("file", "text"), other = folder.path() / "other";
  fs::create_directory(other);
  std::ofstream(other / "thesis.tex") << "text";
  check(file, "cannot be written: a file is in its place; remove it, or give another folder");
  check(file / "model", "cannot be written: Not a directory; check the path, or give another one");
  check(other, "is a folder that contains something other than a model; choose another place, or empty it");
  const std::string error = input_error([&] { check_hf_target("/proc/pipetrain/model"); });  // no user can write there
  CHECK(error.starts_with("/proc/pipetrain/model: cannot be written: "));
  CHECK(names_in(folder.path()) == std::vector<std::string>{"file", "other"});
  CHECK(read_file(other / "thesis.tex") == "text");

  CHECK_NOTHROW(check_hf_target(folder.path() / "new/model"));
  CHECK(names_in(folder.path()) == std::vector<std::string>{"file", "other"});
}

TEST_CASE("a name in a working folder that has been removed is refused by that name") {
  const TempFolder folder;
  const fs::path before = fs::current_path(), working = folder.path() / "working";
  fs::create_directory(working);
  fs::current_path(working);
  fs::remove(working);
  const std::string error = input_error([&] { save(small_config(), "model"); });
  fs::current_path(before);
  CHECK(error == "model: cannot be written: No such file or directory; check the path, or give another one");
}

// A limit on file sizes simulates a full disk: the same calls fail.
TEST_CASE("no space for the file ends in one line and leaves nothing behind") {
  const TempFolder folder;
  const ModelConfig config = small_config();
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit tight = before;
  tight.rlim_cur = 20'000;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &tight) == 0);
  std::string error;
  try {
    save(config, folder.path() / "out/model");
  } catch (const Error& failure) {
    CHECK(failure.kind() == ErrorKind::unavailable);  // no input is wrong
    error = failure.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(error == (folder.path() / "out/model/model.safetensors").string() +
                     ": cannot be written: File too large; raise ulimit -f, or save to another disk");
  CHECK(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace pipetrain
