// Documents as a stream of tokens, and samples packed from such streams. Internal to data/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/checksum.hpp"
#include "data/dataset.hpp"

namespace pipetrain {

// One or more documents as a run of tokens. Thread-safe.
class TokenStream {
 public:
  virtual ~TokenStream() = default;
  virtual std::int64_t size() const = 0;  // tokens, at least 1
  virtual void read(std::int64_t first, std::span<std::int32_t> tokens) const = 0;
  // A checksum of the documents. Where files would have to be read again: of content_block bytes at every multiple of `stride`,
  // and of the last ones.
  virtual std::uint64_t content(std::int64_t stride) const = 0;
};
inline constexpr std::int64_t content_block = 64 * 1024;

// A checksum of `size` bytes: of content_block bytes at every multiple of `stride`, and of the last ones. fetch(first, bytes)
// returns a part.
template <class Fetch>
std::uint64_t content_of_blocks(std::int64_t size, std::int64_t stride, const Fetch& fetch) {
  Checksum sum;
  const auto add = [&](std::int64_t first) {
    const std::string_view block = fetch(first, std::min(content_block, size - first));
    sum.add(block.data(), block.size());
  };
  for (std::int64_t first = 0; first < size; first += stride) add(first);
  add(std::max<std::int64_t>(0, size - content_block));
  return sum.value();
}

// Where each of several streams starts in their concatenation, with one marker token between neighbours or none.
class Joints {
 public:
  explicit Joints(bool with_marker = true) : marker_size_(with_marker ? 1 : 0) {}

  void add(std::int64_t length) { starts_.push_back(starts_.back() + length + marker_size_); }
  bool empty() const { return starts_.size() == 1; }
  std::int64_t size() const { return empty() ? 0 : starts_.back() - marker_size_; }  // tokens, markers included

  // Fills `tokens` from position `first` on; read_part(run, offset, tokens) fills the tokens of one stream.
  template <class ReadPart>
  void read(std::int64_t first, std::span<std::int32_t> tokens, std::int32_t marker, const ReadPart& read_part) const {
    auto run = static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), first) - starts_.begin() - 1);
    while (!tokens.empty()) {
      const std::int64_t marker_at = starts_[run + 1] - marker_size_;
      const auto here = static_cast<std::size_t>(std::min<std::int64_t>(marker_at - first, std::ssize(tokens)));
      if (here > 0) read_part(run, first - starts_[run], tokens.first(here));
      tokens = tokens.subspan(here);
      if (tokens.empty()) return;
      if (marker_size_ == 1) {
        tokens[0] = marker;
        tokens = tokens.subspan(1);
      }
      first = starts_[++run];
    }
  }

 private:
  std::int64_t marker_size_;
  std::vector<std::int64_t> starts_{0};
};

// Bytes of a .txt file as tokens. Throws Error(input) on a byte that is not below the vocabulary.
std::unique_ptr<TokenStream> open_text_file(const std::filesystem::path& path, std::int64_t vocabulary);
// The same of a text in memory, which must outlive the stream; `name` is for errors.
std::unique_ptr<TokenStream> text_in_memory(std::string_view text, std::string_view name, std::int64_t vocabulary);

// Samples cut from the concatenation of the streams, with the marker between neighbours or none. Throws Error(input) when
// there are too few tokens for one sample; `name` is for that error.
std::unique_ptr<Dataset> pack(std::vector<std::unique_ptr<TokenStream>> streams, std::int64_t sequence_length,
                              std::optional<std::int32_t> marker, const std::string& name);

}  // namespace pipetrain
