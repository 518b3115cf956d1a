// Going on from a checkpoint: to the bit as if the run had never stopped, in the same layout and in another.
#include "actors/training/checkpoint.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "catch.hpp"
#include "core/error.hpp"
#include "golden_run.hpp"
#include "model/weights/safetensors.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
namespace fs = std::filesystem;

namespace {

// The golden model in this layout; from the checkpoint, where one is given.
TrainJob job_from(const fs::path& checkpoint, const Layout& layout) {
  TrainJob job = golden_job("llama3_tiny", layout);
  if (checkpoint.empty()) return job;
  const CheckpointState state = verify_checkpoint(checkpoint).state;
  job.initial = open_checkpoint(checkpoint, state, job.config);
  job.steps_done = state.step;
  job.first_loss = state.first_loss;
  job.last_loss = state.last_loss;
  return job;
}

void expect_error(const std::function<void()>& action, const std::string& part) {
  try {
    action();
    FAIL("no error that says " << part);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    CHECK(std::string(error.what()).find(part) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("a run goes on from a checkpoint to the bit") {
  const TempFolder folder;
  const Layout layout{2, 2, 1, 2};
  const RunRecord whole = run(golden_job("llama3_tiny", layout), 6);
  {
    Trainer first(golden_job("llama3_tiny", layout));
    for (int step = 0; step < 4; ++step) first.step();
    first.save_checkpoint(folder.path());
  }
  REQUIRE(find_checkpoints(folder.path()) == std::vector<fs::path>{folder.path() / "step-00000004"});
  Layout recomputing = layout;
  recomputing.recompute = Recompute::full;
  for (const Layout& next :
       {layout, recomputing, Layout{4, 2, 1, 2, "gpipe"}, Layout{1, 2, 1, 2}, Layout{2, 2, 1, 2, "zb-h1"}}) {
    INFO(to_string(next));
    const RunRecord rest = run(job_from(checkpoint_path(folder.path(), 4), next), 2);
    CHECK(rest.loss == std::vector<double>(whole.loss.begin() + 4, whole.loss.end()));
    CHECK(rest.grad_norm == std::vector<double>(whole.grad_norm.begin() + 4, whole.grad_norm.end()));
    CHECK(rest.weights == whole.weights);
  }
}

TEST_CASE("a step that is skipped leaves weights and moments as they were, and is not counted, in every layout") {
  const TempFolder folder;
  const auto bytes = [&](int step, const char* file) {
    std::ifstream stream(checkpoint_path(folder.path(), step) / file, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  for (const Layout& layout : {Layout{}, Layout{2, 2, 1, 2}, Layout{1, 1, 2, 2}, Layout{2, 1, 2, 1, "zb-v", 2},
                               Layout{2, 1, 1, 2, "interleaved", 2, schedules::Order::ready}}) {
    INFO(to_string(layout));
    TrainJob job = golden_job("llama3_tiny", layout);
    job.fault = Fault{0, 3, FaultKind::skip};
    Trainer trainer(job);
    std::vector<bool> skipped;
    for (int step = 1; step <= 5; ++step) {
      skipped.push_back(trainer.step().skipped);
      trainer.save_checkpoint(folder.path());
    }
    CHECK(skipped == std::vector<bool>{false, false, true, false, false});
    for (const char* file : {"model.safetensors", "exp_avg.safetensors", "exp_avg_sq.safetensors"}) {
      CHECK(bytes(2, file) == bytes(3, file));
      CHECK(bytes(3, file) != bytes(4, file));
    }
    CHECK(verify_checkpoint(checkpoint_path(folder.path(), 3)).state.applied_steps == 2);
    CHECK(verify_checkpoint(checkpoint_path(folder.path(), 5)).state.applied_steps == 4);
    // Bias corrections count applied steps: a run that goes on behind the skip does what this one did.
    Trainer rest(job_from(checkpoint_path(folder.path(), 3), layout));
    rest.step();
    rest.step();
    const TempFolder again;
    rest.save_checkpoint(again.path());
    CHECK(verify_checkpoint(checkpoint_path(again.path(), 5)).state.applied_steps == 4);
    std::ifstream stream(checkpoint_path(again.path(), 5) / "model.safetensors", std::ios::binary);
    CHECK(std::string(std::istreambuf_iterator<char>(stream), {}) == bytes(5, "model.safetensors"));
  }
}

TEST_CASE("what is no whole checkpoint of this model is refused, and does not count among those kept") {
  const TempFolder folder;
  Trainer trainer(golden_job("llama3_tiny", {}));
  trainer.step();
  trainer.save_checkpoint(folder.path());
  trainer.step();
  trainer.save_checkpoint(folder.path());
  fs::create_directories(folder.path() / "step-00000009.partial");  // a run was killed
  fs::create_directories(folder.path() / "step-00000010");          // no state in it
  fs::create_directories(folder.path() / "step-100000000");         // more digits, and later
  const auto found = find_checkpoints(folder.path());
  REQUIRE(found.size() == 4);
  CHECK(found[2] == folder.path() / "step-00000010");
  CHECK_FALSE(checkpoint_fault(found[1]));
  CHECK(checkpoint_fault(found[2])->find("is not a complete checkpoint: it has no state.json") != std::string::npos);

  ModelConfig other = golden_job("llama3_tiny", {}).config;
  const ModelConfig config = other;
  other.layers = 4;
  expect_error([&] { open_checkpoint(found[1], verify_checkpoint(found[1]).state, other); }, "of another model");
  expect_error([&] { verify_checkpoint(found[2]); }, "is not a complete checkpoint");
  remove_unfinished_checkpoints(folder.path());
  CHECK_FALSE(fs::exists(folder.path() / "step-00000009.partial"));
  remove_old_checkpoints(folder.path(), 100'000'000, 2);  // two complete ones: nothing is too old
  CHECK(find_checkpoints(folder.path()) == found);
  fs::resize_file(found[1] / "exp_avg.safetensors", 5000);
  expect_error([&] { verify_checkpoint(found[1]); }, "exp_avg.safetensors");
  remove_old_checkpoints(folder.path(), 100'000'000, 1);  // the only complete one stays
  CHECK(find_checkpoints(folder.path()) == found);
  std::ofstream(found.front() / "state.json") << "{\"format\": 1}";
  expect_error([&] { verify_checkpoint(found.front()); }, "state.json");
}

namespace {

// The checkpoint of one step of the golden model.
struct SavedStep {
  SavedStep() {
    Trainer trainer(golden_job("llama3_tiny", {}));
    trainer.step();
    trainer.save_checkpoint(folder.path());
  }
  fs::path file(const std::string& name) const { return path / name; }

  TempFolder folder;
  fs::path path = checkpoint_path(folder.path(), 1);
};

void flip_bit(const fs::path& file, std::uint64_t bit) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(bit / 8));
  const int byte = stream.get();
  stream.seekp(static_cast<std::streamoff>(bit / 8));
  stream.put(static_cast<char>(byte ^ (1 << (bit % 8))));
}

// What names the damage of this byte: its tensor, or its file.
std::string name_of(const std::map<std::string, SafetensorsReader::Entry>& tensors, const std::string& file,
                    std::uint64_t byte) {
  for (const auto& [name, entry] : tensors) {
    if (byte >= entry.begin && byte < entry.end) return file + ": tensor " + name + " is not what was saved";
  }
  return file;
}

}  // namespace

TEST_CASE("every damaged bit of a checkpoint is found, and its file and tensor named") {
  const SavedStep saved;
  std::mt19937_64 random(20261122);
  for (const std::string file :
       {"state.json", "config.json", "model.safetensors", "exp_avg.safetensors", "exp_avg_sq.safetensors"}) {
    const bool has_tensors = file.ends_with(".safetensors");
    std::map<std::string, SafetensorsReader::Entry> tensors;
    std::uint64_t data = 0;  // where it begins
    if (has_tensors) {
      tensors = SafetensorsReader(saved.file(file)).entries();
      data = std::min_element(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
               return a.second.begin < b.second.begin;
             })->second.begin;
    }
    for (int flip = 0; flip < 60; ++flip) {
      const std::uint64_t end = has_tensors && flip % 2 == 0 ? data : fs::file_size(saved.file(file));
      const std::uint64_t bit = random() % (8 * end);
      INFO(file << ", bit " << bit);
      flip_bit(saved.file(file), bit);
      expect_error([&] { verify_checkpoint(saved.path); }, name_of(tensors, file, bit / 8));
      flip_bit(saved.file(file), bit);
    }
  }
  CHECK(verify_checkpoint(saved.path).checksums);
}

TEST_CASE("a checkpoint's files are those that were saved together") {
  const SavedStep saved;
  SECTION("two of them exchanged") {
    fs::rename(saved.file("exp_avg.safetensors"), saved.file("x"));
    fs::rename(saved.file("exp_avg_sq.safetensors"), saved.file("exp_avg.safetensors"));
    fs::rename(saved.file("x"), saved.file("exp_avg_sq.safetensors"));
    expect_error([&] { verify_checkpoint(saved.path); }, "exp_avg.safetensors: tensor ");
  }
  SECTION("one of them longer") {
    std::ofstream(saved.file("model.safetensors"), std::ios::app) << "more";
    expect_error([&] { verify_checkpoint(saved.path); }, "model.safetensors: has ");
  }
}

TEST_CASE("a checkpoint of the format without checksums is read, and one of its bits never makes the one of the other") {
  const SavedStep saved;
  std::ifstream in(saved.file("state.json"));
  nlohmann::ordered_json state = nlohmann::ordered_json::parse(in);
  state["format"] = 2;
  std::ofstream(saved.file("state.json")) << state.dump(1);
  expect_error([&] { verify_checkpoint(saved.path); }, "state.json: is not what was saved");
  for (const char* key : {"checksum", "checksums"}) {
    state.erase(key);
    std::ofstream(saved.file("state.json")) << state.dump(1);
    if (key == std::string("checksum"))
      expect_error([&] { verify_checkpoint(saved.path); }, "its checksums are damaged");
    else
      CHECK_FALSE(verify_checkpoint(saved.path).checksums);
  }
  state["format"] = 3;
  std::ofstream(saved.file("state.json")) << state.dump(1);
  expect_error([&] { verify_checkpoint(saved.path); }, "its checksums are damaged");
  state["format"] = 4;
  std::ofstream(saved.file("state.json")) << state.dump(1);
  expect_error([&] { verify_checkpoint(saved.path); }, "checkpoint format 4, this program reads 2 and 3");
}

TEST_CASE("what is saved is kept, though later checkpoints that were passed over are there") {
  const TempFolder folder;
  Trainer trainer(golden_job("llama3_tiny", {}));
  for (int step = 0; step < 2; ++step) {
    trainer.step();
    trainer.save_checkpoint(folder.path());
  }
  fs::copy(checkpoint_path(folder.path(), 2), checkpoint_path(folder.path(), 3), fs::copy_options::recursive);
  remove_old_checkpoints(folder.path(), 2, 1);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"step-00000002", "step-00000003"});
}

TEST_CASE("a checkpoint that a killed run had moved aside to replace it comes back") {
  const SavedStep saved;
  const fs::path aside = saved.folder.path() / ".step-00000001.replaced";
  fs::rename(saved.path, aside);
  restore_replaced_checkpoints(saved.folder.path());
  CHECK(names_in(saved.folder.path()) == std::vector<std::string>{"step-00000001"});
  fs::create_directories(aside / "half removed");
  restore_replaced_checkpoints(saved.folder.path());
  CHECK(names_in(saved.folder.path()) == std::vector<std::string>{"step-00000001"});
  CHECK_NOTHROW(verify_checkpoint(saved.path));
}

TEST_CASE("a checkpoint that cannot be written leaves nothing") {
  const TempFolder folder;
  Trainer trainer(golden_job("llama3_tiny", {}));
  trainer.step();
  folder.write("file", "not a folder");
  expect_error([&] { trainer.save_checkpoint(folder.path() / "file"); }, "file");
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}
