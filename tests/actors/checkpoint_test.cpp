// Resuming from a checkpoint gives the bits of a run that never stopped, in the same layout and in another.
#include "actors/training/checkpoint/checkpoint.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "actors/training/checkpoint/checkpoint_folder.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "golden_run.hpp"
#include "model/weights/piecewise_weights.hpp"
#include "model/weights/safetensors.hpp"
#include "older_checkpoint.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
namespace fs = std::filesystem;

namespace {

// Returns the golden model in this layout, resumed from the checkpoint if there is one.
TrainJob job_from_checkpoint(const fs::path& checkpoint, const Layout& layout) {
  TrainJob job = golden_job("llama3_tiny", layout);
  if (checkpoint.empty()) return job;
  const CheckpointManifest manifest = verify_checkpoint(checkpoint);
  const CheckpointState& state = manifest.state;
  job.initial = open_checkpoint(checkpoint, manifest, job.config);
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

namespace {

// Returns the files of all ranks, in order.
std::string bytes_of_ranks(const TempFolder& folder, int step) {
  std::string bytes;
  for (const fs::path& file : rank_files(checkpoint_path(folder.path(), step))) {
    std::ifstream stream(file, std::ios::binary);
    bytes.append(std::istreambuf_iterator<char>(stream), {});
  }
  REQUIRE_FALSE(bytes.empty());
  return bytes;
}

// Returns the full tensors of all states.
std::map<std::string, std::vector<float>> contents_of(const fs::path& checkpoint) {
  std::map<std::string, std::vector<float>> contents;
  const ModelConfig config = read_hf_config(checkpoint);
  InitialState initial = open_checkpoint(checkpoint, verify_checkpoint(checkpoint), config);
  initial.states["weights"] = initial.weights;
  for (const auto& [state, source] : initial.states) {
    for (const NamedShape& tensor : logical_tensors(config)) {
      Parameter whole;
      whole.name = tensor.name;
      whole.full = whole.local = tensor.shape;
      auto& values = contents[state + "/" + tensor.name];
      values.resize(static_cast<std::size_t>(tensor.shape.elements()));
      source->load(whole, values.data());
    }
  }
  return contents;
}

}  // namespace

TEST_CASE("every layout reads what any other has saved, and saves the same again") {
  const std::string model = GENERATE("llama3_tiny", "llama2_tiny", "gpt2_tiny");
  const TempFolder folder;
  const auto save = [&](TrainJob job, const fs::path& place, int steps) {
    Trainer trainer(std::move(job));
    for (int step = 0; step < steps; ++step) trainer.step();
    trainer.start_checkpoint(place).get();
    return contents_of(checkpoint_path(place, trainer.steps_done()));
  };
  const auto saved = save(golden_job(model, {4, 1, 1, 1}), folder.path(), 2);
  REQUIRE(saved.size() > 30);
  fs::path from = checkpoint_path(folder.path(), 2);
  int number = 0;
  for (const Layout& layout :
       {Layout{1, 2, 2, 1}, Layout{2, 2, 1, 2, "zb-v", 2}, Layout{1, 4, 1, 1}, Layout{1, 1, 4, 1}, Layout{2, 1, 2, 1}}) {
    INFO(model << " " << to_string(layout));
    TrainJob job = golden_job(model, layout);
    job.initial = open_checkpoint(from, verify_checkpoint(from), job.config);
    job.steps_done = 2;
    const fs::path place = folder.path() / std::to_string(number++);
    CHECK((save(std::move(job), place, 0) == saved));
    from = checkpoint_path(place, 2);
  }
  make_older(from, 3);
  CHECK((contents_of(from) == saved));
}

TEST_CASE("steps that run while a checkpoint is written change nothing of it") {
  const TempFolder behind, between;
  for (const TempFolder* folder : {&behind, &between}) {
    Trainer trainer(golden_job("llama3_tiny", {2, 2, 1, 2}));
    for (int step = 0; step < 3; ++step) trainer.step();
    auto saving = trainer.start_checkpoint(folder->path());
    if (folder == &behind) saving.get();
    for (int step = 0; step < 2; ++step) trainer.step();
    if (folder == &between) saving.get();
  }
  CHECK(bytes_of_ranks(between, 3) == bytes_of_ranks(behind, 3));
}

TEST_CASE("a run resumes from a checkpoint to the bit") {
  const TempFolder folder;
  const Layout layout{2, 2, 1, 2};
  const RunRecord whole = run(golden_job("llama3_tiny", layout), 6);
  {
    Trainer first(golden_job("llama3_tiny", layout));
    for (int step = 0; step < 4; ++step) first.step();
    first.start_checkpoint(folder.path()).get();
  }
  REQUIRE(find_checkpoints(folder.path()) == std::vector<fs::path>{folder.path() / "step-00000004"});
  Layout recomputing = layout;
  recomputing.recompute = Recompute::full;
  for (const Layout& next :
       {layout, recomputing, Layout{4, 2, 1, 2, "gpipe"}, Layout{1, 2, 1, 2}, Layout{2, 2, 1, 2, "zb-h1"}}) {
    INFO(to_string(next));
    const RunRecord rest = run(job_from_checkpoint(checkpoint_path(folder.path(), 4), next), 2);
    CHECK(rest.loss == std::vector<double>(whole.loss.begin() + 4, whole.loss.end()));
    CHECK(rest.grad_norm == std::vector<double>(whole.grad_norm.begin() + 4, whole.grad_norm.end()));
    CHECK(rest.weights == whole.weights);
  }
}

TEST_CASE("a step that is skipped leaves weights and moments as they were, and is not counted, in every layout") {
  const TempFolder folder;
  for (const Layout& layout : {Layout{}, Layout{2, 2, 1, 2}, Layout{1, 1, 2, 2}, Layout{2, 1, 2, 1, "zb-v", 2},
                               Layout{2, 1, 1, 2, "interleaved", 2, schedules::Order::ready}}) {
    INFO(to_string(layout));
    TrainJob job = golden_job("llama3_tiny", layout);
    job.fault = Fault{0, 3, FaultKind::skip};
    Trainer trainer(job);
    std::vector<bool> skipped;
    for (int step = 1; step <= 5; ++step) {
      skipped.push_back(trainer.step().skipped);
      trainer.start_checkpoint(folder.path()).get();
    }
    CHECK(skipped == std::vector<bool>{false, false, true, false, false});
    CHECK(bytes_of_ranks(folder, 2) == bytes_of_ranks(folder, 3));
    CHECK(bytes_of_ranks(folder, 3) != bytes_of_ranks(folder, 4));
    CHECK(verify_checkpoint(checkpoint_path(folder.path(), 3)).state.applied_steps == 2);
    CHECK(verify_checkpoint(checkpoint_path(folder.path(), 5)).state.applied_steps == 4);
    // Bias corrections count applied steps, so a run resumed after the skip does what this one did.
    Trainer rest(job_from_checkpoint(checkpoint_path(folder.path(), 3), layout));
    rest.step();
    rest.step();
    const TempFolder again;
    rest.start_checkpoint(again.path()).get();
    CHECK(verify_checkpoint(checkpoint_path(again.path(), 5)).state.applied_steps == 4);
    CHECK(bytes_of_ranks(again, 5) == bytes_of_ranks(folder, 5));
  }
}

TEST_CASE("an incomplete checkpoint, or another model's, is refused, and does not count among those kept") {
  const TempFolder folder;
  Trainer trainer(golden_job("llama3_tiny", {}));
  trainer.step();
  trainer.start_checkpoint(folder.path()).get();
  trainer.step();
  trainer.start_checkpoint(folder.path()).get();
  fs::create_directories(folder.path() / "step-00000009.partial");  // of a killed run
  fs::create_directories(folder.path() / "step-00000010");          // without a state
  fs::create_directories(folder.path() / "step-100000000");         // more digits, and later
  const auto found = find_checkpoints(folder.path());
  REQUIRE(found.size() == 4);
  CHECK(found[2] == folder.path() / "step-00000010");
  CHECK_FALSE(checkpoint_fault(found[1]));
  CHECK(checkpoint_fault(found[2])->find("is not a complete checkpoint: it has no state.json") != std::string::npos);

  ModelConfig other = golden_job("llama3_tiny", {}).config;
  other.layers = 4;
  expect_error([&] { open_checkpoint(found[1], verify_checkpoint(found[1]), other); }, "of another model");
  expect_error([&] { verify_checkpoint(found[2]); }, "is not a complete checkpoint");
  remove_unfinished_checkpoints(folder.path());
  CHECK_FALSE(fs::exists(folder.path() / "step-00000009.partial"));
  remove_old_checkpoints(folder.path(), 100'000'000, {2, {}});  // there are two complete ones: nothing is too old
  CHECK(find_checkpoints(folder.path()) == found);
  fs::resize_file(found[1] / "rank-00000.safetensors", 5000);
  expect_error([&] { verify_checkpoint(found[1]); }, "rank-00000.safetensors");
  remove_old_checkpoints(folder.path(), 100'000'000, {1, {}});  // the only complete one stays
  CHECK(find_checkpoints(folder.path()) == found);
  std::ofstream(found.front() / "state.json") << "{\"format\": 1}";
  expect_error([&] { verify_checkpoint(found.front()); }, "state.json");
}

namespace {

// The checkpoint of one step of the golden model.
struct SavedStep {
  explicit SavedStep(const Layout& layout = {}) {
    Trainer trainer(golden_job("llama3_tiny", layout));
    trainer.step();
    trainer.start_checkpoint(folder.path()).get();
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

// Returns the tensor that this byte belongs to, or its file, which the error must name.
std::string name_of(const std::map<std::string, SafetensorsReader::Entry>& tensors, const std::string& file,
                    std::uint64_t byte) {
  for (const auto& [name, entry] : tensors) {
    if (byte >= entry.begin && byte < entry.end) return file + ": tensor " + name + " differs from the saved one";
  }
  return file;
}

}  // namespace

TEST_CASE("every damaged bit of a checkpoint is found, and its file and tensor named") {
  const SavedStep saved(Layout{2, 2, 1, 2});
  std::mt19937_64 random(20261122);
  for (const std::string file : {"state.json", "config.json", "rank-00000.safetensors", "rank-00002.safetensors"}) {
    const bool has_tensors = file.ends_with(".safetensors");
    std::map<std::string, SafetensorsReader::Entry> tensors;
    std::uint64_t data = 0;  // the beginning of the data
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
  const SavedStep saved(Layout{1, 2, 1, 2});
  SECTION("two of them exchanged") {
    fs::rename(saved.file("rank-00000.safetensors"), saved.file("x"));
    fs::rename(saved.file("rank-00001.safetensors"), saved.file("rank-00000.safetensors"));
    fs::rename(saved.file("x"), saved.file("rank-00001.safetensors"));
    expect_error([&] { verify_checkpoint(saved.path); }, "rank-0000");
  }
  SECTION("one of them missing") {
    fs::remove(saved.file("rank-00001.safetensors"));
    expect_error([&] { verify_checkpoint(saved.path); }, "is not a complete checkpoint: it has no rank-00001.safetensors");
  }
  SECTION("one of them longer") {
    std::ofstream(saved.file("rank-00000.safetensors"), std::ios::app) << "more";
    expect_error([&] { verify_checkpoint(saved.path); }, "rank-00000.safetensors: has ");
  }
}

TEST_CASE("a checkpoint of the format without checksums is read, and one of its bits never makes the one of the other") {
  const SavedStep saved;
  make_older(saved.path, 3);
  CHECK(verify_checkpoint(saved.path).checksums);
  std::ifstream in(saved.file("state.json"));
  nlohmann::ordered_json state = nlohmann::ordered_json::parse(in);
  state["format"] = 2;
  std::ofstream(saved.file("state.json")) << state.dump(1);
  expect_error([&] { verify_checkpoint(saved.path); }, "state.json: differs from the saved one");
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
  state["format"] = 5;
  std::ofstream(saved.file("state.json")) << state.dump(1);
  expect_error([&] { verify_checkpoint(saved.path); }, "checkpoint format 5, this program reads 2, 3 and 4");
}

TEST_CASE("a new checkpoint is kept even if later ones were passed over") {
  const TempFolder folder;
  Trainer trainer(golden_job("llama3_tiny", {}));
  for (int step = 0; step < 2; ++step) {
    trainer.step();
    trainer.start_checkpoint(folder.path()).get();
  }
  fs::copy(checkpoint_path(folder.path(), 2), checkpoint_path(folder.path(), 3), fs::copy_options::recursive);
  remove_old_checkpoints(folder.path(), 2, {1, {}});
  CHECK(names_in(folder.path()) == std::vector<std::string>{"step-00000002", "step-00000003"});
}

TEST_CASE("old checkpoints of every N-th step stay") {
  const TempFolder folder;
  Trainer trainer(golden_job("llama3_tiny", {}));
  for (int step = 1; step <= 7; ++step) {
    trainer.step();
    trainer.start_checkpoint(folder.path()).get();
    remove_old_checkpoints(folder.path(), step, {2, 3});
  }
  CHECK(names_in(folder.path()) == std::vector<std::string>{"step-00000003", "step-00000006", "step-00000007"});
}

TEST_CASE("a checkpoint that a killed run had moved aside is restored") {
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
  expect_error([&] { trainer.start_checkpoint(folder.path() / "file").get(); }, "file");
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}
