// state.json of models with very many tensors.
#include "actors/training/checkpoint/checkpoint_state.hpp"

#include <string>

#include "catch.hpp"
#include "core/error.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;

namespace {

CheckpointManifest manifest_of(std::size_t tensors) {
  CheckpointManifest manifest;
  manifest.state.step = manifest.state.applied_steps = 1;
  manifest.state.global_batch = manifest.state.sequence = manifest.state.samples = 1;
  manifest.checksums.emplace();
  manifest.checksums->small_files["config.json"] = 1;
  SafetensorsChecksums& sums = manifest.checksums->tensors["model.safetensors"];
  for (std::size_t i = 0; i < tensors; ++i) sums.tensors.emplace("layers." + std::to_string(i) + ".mlp.weight", i);
  return manifest;
}

}  // namespace

TEST_CASE("the state of a model of 8,000 layers is written and read") {
  const TempFolder folder;
  const auto file = folder.path() / "state.json";
  const CheckpointManifest manifest = manifest_of(8'000 * 27);
  write_manifest(file, manifest);
  const CheckpointManifest read = read_manifest(file);
  REQUIRE(read.checksums);
  CHECK(
      (read.checksums->tensors.at("model.safetensors").tensors == manifest.checksums->tensors.at("model.safetensors").tensors));
}

TEST_CASE("a state that could not be read again is not written") {
  const TempFolder folder;
  const auto file = folder.path() / "state.json";
  CHECK_THROWS_WITH(write_manifest(file, manifest_of(300'000)), Catch::Matchers::Contains("more tensors than the state"));
  CHECK_FALSE(std::filesystem::exists(file));
}

TEST_CASE("the state of a run with adapters keeps the form of their base") {
  const TempFolder folder;
  const auto file = folder.path() / "state.json", of_nf4 = folder.path() / "nf4.json";
  CheckpointManifest manifest = manifest_of(1);
  write_manifest(file, manifest);
  CHECK_FALSE(read_manifest(file).state.base_form);
  manifest.state.base_form = "nf4";
  write_manifest(of_nf4, manifest);
  CHECK(read_manifest(of_nf4).state.base_form == "nf4");
  manifest.state.base_form = "int3";
  CHECK_THROWS_WITH(write_manifest(folder.path() / "int3.json", manifest),
                    Catch::Matchers::Contains("the form of the base is"));
}
