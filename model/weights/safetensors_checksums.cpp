#include "model/weights/safetensors_checksums.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "core/threads/on_threads.hpp"
#include "files/file_io.hpp"
#include "model/weights/safetensors.hpp"

namespace pipetrain {
namespace {

// The size of a piece that the processor's cache holds while it is summed, and of a range of tensors that one thread reads
// front to back: the system then reads ahead, which it does not do if the threads' reads of one file alternate.
constexpr std::size_t bytes_at_once = std::size_t{256} << 10;
constexpr std::uint64_t bytes_in_a_row = std::uint64_t{32} << 20;
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

// Returns the tensors in the order of the file, which is the fastest to read from disks.
std::vector<NamedEntry> in_file_order(const SafetensorsReader& reader) {
  std::vector<NamedEntry> tensors(reader.entries().begin(), reader.entries().end());
  std::sort(tensors.begin(), tensors.end(),
            [](const NamedEntry& a, const NamedEntry& b) { return a.second.begin < b.second.begin; });
  return tensors;
}

// Returns the beginnings of the ranges of tensors, and the end of the last.
std::vector<std::size_t> runs_of(const std::vector<NamedEntry>& tensors) {
  std::vector<std::size_t> begins = {0};
  for (std::size_t i = 1; i < tensors.size(); ++i)
    if (tensors[i].second.begin - tensors[begins.back()].second.begin >= bytes_in_a_row) begins.push_back(i);
  begins.push_back(tensors.size());
  return begins;
}

std::vector<std::uint64_t> checksums_of(const std::filesystem::path& path, const std::vector<NamedEntry>& tensors) {
  std::vector<std::uint64_t> sums(tensors.size());
  const std::vector<std::size_t> begins = runs_of(tensors);
  const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1U, most_threads);
  on_threads(threads, begins.size() - 1, [&](std::size_t run) {
    const InputFile file(path);  // each thread opens the file: the system reads ahead for each open file
    for (std::size_t i = begins[run]; i < begins[run + 1]; ++i)
      sums[i] = checksum_of(file, tensors[i].second.begin, tensors[i].second.end);
  });
  return sums;
}

}  // namespace

void verify_safetensors(const std::filesystem::path& path, const SafetensorsChecksums& expected, const std::string& source) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::input, fmt::format("{}: {}; the file is damaged: take another checkpoint", path.string(), what));
  };
  const InputFile file(path);
  if (file.size() != expected.bytes) refuse(fmt::format("has {} bytes, not the {} of {}", file.size(), expected.bytes, source));
  std::uint64_t header = 0;
  if (file.size() >= sizeof header) file.read_at(0, &header, sizeof header);
  const bool fits = file.size() >= sizeof header && header <= file.size() - sizeof header;
  if (!fits || checksum_of(file, 0, sizeof header + header) != expected.header)
    refuse(fmt::format("its header differs from the saved one, by the checksum in {}", source));

  const std::vector<NamedEntry> tensors = in_file_order(SafetensorsReader(path));
  const auto sums = checksums_of(path, tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto saved = expected.tensors.find(tensors[i].first);
    if (saved == expected.tensors.end()) refuse(fmt::format("tensor {} has no checksum in {}", tensors[i].first, source));
    if (sums[i] != saved->second)
      refuse(fmt::format("tensor {} differs from the saved one, by the checksum in {}", tensors[i].first, source));
  }
}

}  // namespace pipetrain
