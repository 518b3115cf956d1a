#include "actors/training/checkpoint/checkpoint_save.hpp"

#include <fmt/format.h>

#include <utility>

#include "actors/engine/run_failed.hpp"
#include "actors/training/checkpoint/checkpoint_folder.hpp"
#include "actors/training/checkpoint/rank_file.hpp"
#include "core/checksum.hpp"
#include "core/error.hpp"
#include "files/file_io.hpp"
#include "files/folder_draft.hpp"
#include "model/weights/companion_files.hpp"
#include "model/weights/peft/peft_config.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

// Returns the checksum of the text.
std::uint64_t write_small_file(const fs::path& path, const std::string& text) {
  OutputFile file(path);
  file.write(text.data(), text.size());
  file.sync();
  return checksum(text.data(), text.size());
}

// This process sees another one's files only where both write to the same file system.
void check_visible(const fs::path& folder, const RankFileReport& report) {
  std::error_code error;
  const auto bytes = fs::file_size(folder / report.name, error);
  if (!error && bytes == report.checksums.bytes) return;
  throw Error(
      ErrorKind::input,
      fmt::format("{}: process 0 does not see the file that a rank has written; save to a file system that all processes "
                  "share",
                  (folder / report.name).string()));
}

void complete(const FolderDraft& draft, const CheckpointContents& contents, const std::vector<std::string>& reports) {
  CheckpointManifest manifest{contents.state, CheckpointChecksums{}, CheckpointFormat::rank_files};
  for (const std::string& of_part : reports) {
    for (RankFileReport& report : read_reports(of_part)) {
      check_visible(draft.path(), report);
      manifest.checksums->tensors[report.name] = std::move(report.checksums);
    }
  }
  draft.fill([&](const fs::path& path) {
    auto& sums = manifest.checksums->small_files;
    for (const fs::path& file : contents.companions) sums[companion_name(file)] = copy_companion(file, path);
    sums["config.json"] = write_small_file(path / "config.json", hf_config_text(contents.config));
    if (contents.config.adapter.exists())
      sums[peft_config_file] = write_small_file(path / peft_config_file, peft_config_text(contents.config, contents.base));
    if (contents.multimodal) sums[multimodal_file] = write_small_file(path / multimodal_file, contents.multimodal->record());
    write_manifest(path / checkpoint_state_file, manifest);
  });
}

// Names the final folder, which the user knows, in place of the draft.
Error with_target(const Error& error, const FolderDraft& draft) {
  std::string text = error.what();
  const std::string path = draft.path().string();
  for (std::size_t at = text.find(path); at != std::string::npos; at = text.find(path, at))
    text.replace(at, path.size(), draft.target().string());
  return {error.kind(), text};
}

}  // namespace

CheckpointContents contents_of(const TrainJob& job) {
  CheckpointState state;
  state.optimizer = job.optimizer.name;
  state.trained = job.config.trained;
  state.base = job.base;
  if (job.base || job.config.base_form != WeightForm::plain) state.base_form = name_of(job.config.base_form);
  state.compression = compression_text(job);
  state.global_batch = job.batch.global_batch();
  state.sequence = job.dataset->sequence_length();
  state.seed = job.samples.seed;
  state.shuffle = job.samples.shuffle;
  state.samples = job.dataset->size();
  return {job.config, std::move(state), job.companions, job.multimodal, job.model_name, nullptr};
}

std::future<void> start_checkpoint(const fs::path& folder, const CheckpointContents& contents, const WriteRanks& write_ranks) {
  auto draft = std::make_unique<FolderDraft>(checkpoint_path(folder, contents.state.step));
  auto written = write_ranks(draft->path().string());
  return std::async(std::launch::async, [draft = std::move(draft), contents, written = std::move(written)]() mutable {
    try {
      complete(*draft, contents, written.get());
      if (contents.check_folder) contents.check_folder();
      draft->publish();
    } catch (const RunFailed&) {
      throw;
    } catch (const Error& error) {
      throw with_target(error, *draft);
    }
  });
}

}  // namespace pipetrain
