#include "model/weights/safetensors_checksums.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "files/file_io.hpp"
#include "model/weights/safetensors.hpp"

namespace pipetrain {
namespace {

constexpr std::size_t bytes_at_once = std::size_t{4} << 20;
constexpr unsigned most_threads = 8;

std::uint64_t checksum_of(const InputFile& file, std::uint64_t begin, std::uint64_t end) {
  Checksum sum;
  std::vector<char> buffer(static_cast<std::size_t>(std::min<std::uint64_t>(bytes_at_once, end - begin)));
  for (; begin < end; begin += buffer.size()) {
    buffer.resize(static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), end - begin)));
    file.read_at(begin, buffer.data(), buffer.size());
    sum.add(buffer.data(), buffer.size());
  }
  return sum.value();
}

using NamedEntry = std::pair<std::string, SafetensorsReader::Entry>;

// In the order of the file, which disks like best.
std::vector<NamedEntry> in_file_order(const SafetensorsReader& reader) {
  std::vector<NamedEntry> tensors(reader.entries().begin(), reader.entries().end());
  std::sort(tensors.begin(), tensors.end(),
            [](const NamedEntry& a, const NamedEntry& b) { return a.second.begin < b.second.begin; });
  return tensors;
}

std::vector<std::uint64_t> checksums_of(const InputFile& file, const std::vector<NamedEntry>& tensors) {
  std::vector<std::uint64_t> sums(tensors.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < tensors.size(); i = next++)
      sums[i] = checksum_of(file, tensors[i].second.begin, tensors[i].second.end);
  };
  const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1U, most_threads);
  std::vector<std::future<void>> others;
  // Where the system has no more threads, those that there are do the work.
  for (unsigned i = 1; i < threads; ++i) others.push_back(std::async(std::launch::async | std::launch::deferred, work));
  work();
  for (auto& other : others) other.get();
  return sums;
}

}  // namespace

void verify_safetensors(const std::filesystem::path& path, const SafetensorsChecksums& expected, const std::string& source) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::input, fmt::format("{}: {}; the file is damaged", path.string(), what));
  };
  const InputFile file(path);
  if (file.size() != expected.bytes) refuse(fmt::format("has {} bytes, not the {} of {}", file.size(), expected.bytes, source));
  std::uint64_t header = 0;
  if (file.size() >= sizeof header) file.read_at(0, &header, sizeof header);
  const bool fits = file.size() >= sizeof header && header <= file.size() - sizeof header;
  if (!fits || checksum_of(file, 0, sizeof header + header) != expected.header)
    refuse(fmt::format("its header is not what was saved, by the checksum in {}", source));

  const std::vector<NamedEntry> tensors = in_file_order(SafetensorsReader(path));
  const auto sums = checksums_of(file, tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto saved = expected.tensors.find(tensors[i].first);
    if (saved == expected.tensors.end()) refuse(fmt::format("tensor {} has no checksum in {}", tensors[i].first, source));
    if (sums[i] != saved->second)
      refuse(fmt::format("tensor {} is not what was saved, by the checksum in {}", tensors[i].first, source));
  }
}

}  // namespace pipetrain
