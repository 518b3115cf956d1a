#include "records/metrics_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "files/file_io.hpp"
#include "files/file_pieces.hpp"

namespace pipetrain {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t longest_line = std::size_t{4} << 20;  // enough for 65,536 devices

bool begins_like_metrics(const fs::path& path) {
  constexpr std::size_t enough = 32;
  const InputFile file(path);
  std::string begin(std::min<std::uint64_t>(file.size(), enough), '\0');
  file.read_at(0, begin.data(), begin.size());
  return step_of_json_line(begin).has_value();
}

}  // namespace

fs::path find_metrics_file(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error))
    throw Error(ErrorKind::input, fmt::format("{}: there is no such file or folder; check the path", path.string()));
  if (!fs::is_directory(path, error)) return path;
  std::vector<fs::path> found;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_regular_file(ignored) && begins_like_metrics(entry->path())) found.push_back(entry->path());
  }
  if (error)
    throw Error(ErrorKind::input,
                fmt::format("{}: cannot be listed ({}); check the permissions", path.string(), error.message()));
  if (found.empty())
    throw Error(ErrorKind::input,
                fmt::format("{}: holds no file of metrics yet; give the file that a run writes its metrics to", path.string()));
  std::sort(found.begin(), found.end());
  if (found.size() > 1)
    throw Error(ErrorKind::input, fmt::format("{}: holds several files of metrics, {} and {}; give one of them", path.string(),
                                              found[0].filename().string(), found[1].filename().string()));
  return found[0];
}

MetricsReader::MetricsReader(fs::path file) : file_(std::move(file)) { const InputFile check(file_); }

bool MetricsReader::read() {
  const InputFile file(file_);
  bool changed = false;
  if (file.size() < done_) {
    done_ = 0;
    lines_ = 0;
    steps_.clear();
    evaluations_.clear();
    changed = true;
  }
  std::string rest;
  const auto next = pieces_of(file, done_, file.size() - done_);
  for (std::string_view piece = next(); !piece.empty(); piece = next()) {
    for (std::size_t end; (end = piece.find('\n')) != piece.npos; piece.remove_prefix(end + 1)) {
      rest += piece.substr(0, end);
      take(rest);
      done_ += rest.size() + 1;
      rest.clear();
      changed = true;
    }
    rest += piece;
    if (rest.size() > longest_line)
      throw Error(ErrorKind::input,
                  fmt::format("{}:{}: is not a line of metrics: longer than {} MiB; give a file that a run wrote",
                              file_.string(), lines_ + 1, longest_line >> 20));
  }
  return changed;
}

void MetricsReader::take(std::string_view line) {
  ++lines_;
  const std::string place = fmt::format("{}:{}", file_.string(), lines_);
  const auto forget_evaluations = [this](std::int64_t from) {
    while (!evaluations_.empty() && evaluations_.back().step >= from) evaluations_.pop_back();
  };
  auto metrics = parse_metrics_line(line, place);
  if (!metrics) {
    const auto evaluation = parse_evaluation_line(line, place);
    if (!evaluation) return;
    forget_evaluations(evaluation->step);
    evaluations_.push_back(*evaluation);
    return;
  }
  forget_evaluations(metrics->step);
  while (!steps_.empty() && steps_.back().step >= metrics->step) steps_.pop_back();
  if (!steps_.empty()) {
    steps_.back().memory_bytes = {};
    steps_.back().stage_bubble = {};
  }
  steps_.push_back(std::move(*metrics));
}

std::vector<StepMetrics> read_metrics(const fs::path& file) {
  MetricsReader reader(file);
  reader.read();
  if (reader.steps().empty())
    throw Error(ErrorKind::input, fmt::format("{}: has no step; give a file that a run wrote as its metrics", file.string()));
  return reader.steps();
}

}  // namespace pipetrain
