// Documents as one stream of tokens, and the samples that are packed from such streams. Internal to data/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/checksum.hpp"
#include "data/samples/dataset.hpp"

namespace pipetrain {

// Returns the token between packed documents: id 256, which no byte has, if the vocabulary has it; else a newline.
std::int32_t end_of_document(std::int64_t vocabulary);

// One or more documents as a sequence of tokens. Thread-safe.
class TokenStream {
 public:
  virtual ~TokenStream() = default;
  virtual std::int64_t size() const = 0;  // tokens, at least 1
  virtual void read(std::int64_t first, std::span<std::int32_t> tokens) const = 0;
  // Returns true if some tokens are not to be learned: read_labels() gives not_counted for these, and the others unchanged.
  virtual bool masks() const { return false; }
  virtual void read_labels(std::int64_t first, std::span<std::int32_t> labels) const { read(first, labels); }
  // Appends the positions after `first`, up to and including `last`, at which a document begins, ascending. Call
  // find_documents() first, which throws Error(input) if they are not known.
  virtual void find_documents() const {}
  virtual void add_document_begins(std::int64_t, std::int64_t, std::vector<std::int64_t>&) const {}
  // Returns a checksum of the documents. If it must read files again, it covers content_block bytes at every `stride` and the
  // last content_block bytes.
  virtual std::uint64_t content(std::int64_t stride) const = 0;
};
inline constexpr std::int64_t content_block = 64 * 1024;

// Returns a checksum of `size` bytes, computed from content_block bytes at every `stride` and from the last ones.
// fetch(first, bytes) returns a part of them.
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

// The beginnings of several sequences that are concatenated, with or without one marker between adjacent ones.
class Joints {
 public:
  explicit Joints(bool with_marker = true) : marker_size_(with_marker ? 1 : 0) {}

  void add(std::int64_t length) { starts_.push_back(starts_.back() + length + marker_size_); }
  bool empty() const { return starts_.size() == 1; }
  std::int64_t size() const { return empty() ? 0 : starts_.back() - marker_size_; }  // tokens, including markers
  // Appends the beginnings of sequences after `first`, up to and including `last`.
  void add_begins(std::int64_t first, std::int64_t last, std::vector<std::int64_t>& begins) const {
    const auto next = std::upper_bound(starts_.begin(), starts_.end() - 1, first);
    begins.insert(begins.end(), next, std::upper_bound(next, starts_.end() - 1, last));
  }
  // Calls take(sequence, its start) for all sequences that have a token in [first, last].
  template <class Take>
  void each_sequence(std::int64_t first, std::int64_t last, const Take& take) const {
    const auto end = starts_.end() - 1;
    for (auto start = std::upper_bound(starts_.begin(), end, first) - 1; start != end && *start <= last; ++start)
      take(static_cast<std::size_t>(start - starts_.begin()), *start);
  }

  // Fills `tokens` from position `first` on; read_part(sequence, offset, tokens) fills the part inside one sequence.
  template <class ReadPart>
  void read(std::int64_t first, std::span<std::int32_t> tokens, std::int32_t marker, const ReadPart& read_part) const {
    auto index = static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), first) - starts_.begin() - 1);
    while (!tokens.empty()) {
      const std::int64_t marker_at = starts_[index + 1] - marker_size_;
      const auto here = static_cast<std::size_t>(std::min<std::int64_t>(marker_at - first, std::ssize(tokens)));
      if (here > 0) read_part(index, first - starts_[index], tokens.first(here));
      tokens = tokens.subspan(here);
      if (tokens.empty()) return;
      if (marker_size_ == 1) {
        tokens[0] = marker;
        tokens = tokens.subspan(1);
      }
      first = starts_[++index];
    }
  }

 private:
  std::int64_t marker_size_;
  std::vector<std::int64_t> starts_{0};
};

// Appends those of the documents' ends, in ascending order, that lie after `first`, up to and including `last`.
inline void add_ends(const std::vector<std::uint64_t>& ends, std::int64_t first, std::int64_t last,
                     std::vector<std::int64_t>& begins) {
  const auto next = std::upper_bound(ends.begin(), ends.end(), static_cast<std::uint64_t>(first));
  for (auto end = next; end != ends.end() && static_cast<std::int64_t>(*end) <= last; ++end)
    begins.push_back(static_cast<std::int64_t>(*end));
}

// Opens a .txt file, whose bytes are the tokens. Throws Error(input) on a byte that is not below the vocabulary.
std::unique_ptr<TokenStream> open_text_file(const std::filesystem::path& path, std::int64_t vocabulary);
// Does the same as open_text_file() for a text in memory, which must outlive the stream; `name` is for errors.
std::unique_ptr<TokenStream> text_in_memory(std::string_view text, std::string_view name, std::int64_t vocabulary);

struct Packing {
  std::int64_t sequence_length = 0;
  std::optional<std::int32_t> marker;  // between adjacent streams
  bool isolates = false;               // a document's first token is not counted, and samples list where documents begin
};

// Cuts samples from the concatenated streams. Throws Error(input) if there are too few tokens for one sample, or if
// documents are to be isolated and their beginnings are unknown; `name` is for that error.
std::unique_ptr<Dataset> pack(std::vector<std::unique_ptr<TokenStream>> streams, const Packing& packing,
                              const std::string& name);

}  // namespace pipetrain
