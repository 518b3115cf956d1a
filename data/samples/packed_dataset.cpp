#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "data/samples/documents.hpp"

namespace pipetrain {
namespace {

class PackedDataset : public Dataset {
 public:
  PackedDataset(std::vector<std::unique_ptr<TokenStream>> streams, const Packing& packing, const std::string& name)
      : Dataset(packing.sequence_length),
        streams_(std::move(streams)),
        joints_(packing.marker.has_value()),
        marker_(packing.marker.value_or(0)),
        isolates_(packing.isolates) {
    for (const auto& stream : streams_) joints_.add(stream->size());
    if (size() < 1)
      throw Error(
          ErrorKind::input,
          fmt::format("{}: its {} tokens are too few for one sample of sequence length {}, which takes {}; give more data or "
                      "a smaller sequence length",
                      name, joints_.size(), sequence_length(), sequence_length() + 1));
    if (isolates_)
      for (const auto& stream : streams_) stream->find_documents();
    masks_ = std::any_of(streams_.begin(), streams_.end(), [](const auto& stream) { return stream->masks(); });
    content_ = content_of_streams();
    if (masks_) count_labels();
  }

  std::int64_t size() const override { return (joints_.size() - 1) / sequence_length(); }
  bool isolates_documents() const override { return isolates_; }
  std::uint64_t content() const override { return content_; }

  using Dataset::read;
  void read(std::int64_t index, Sample& sample) const override {
    assert(index >= 0);
    const std::int64_t first = first_of(index);
    sample.ids.resize(static_cast<std::size_t>(sequence_length()) + 1);
    joints_.read(first, sample.ids, marker_, [this](std::size_t stream, std::int64_t from, std::span<std::int32_t> part) {
      streams_[stream]->read(from, part);
    });
    label_with_next_ids(sample);
    if (masks_) read_labels(first + 1, sample.labels);
    sample.documents.clear();
    if (isolates_) isolate(first, sample);
  }

  SampleSize measure(std::int64_t index) const override {
    SampleSize size{sequence_length(), sequence_length()};
    if (masks_) {
      size.counted = counted_[static_cast<std::size_t>(index % this->size())];
    } else if (isolates_) {
      const std::int64_t first = first_of(index);
      size.counted -= std::ssize(begins(first, first + sequence_length()));
    }
    return size;
  }

  std::vector<std::int32_t> documents(std::int64_t index) const override {
    Sample sample;
    if (isolates_) place_documents(first_of(index), sample);
    return std::move(sample.documents);
  }

 private:
  static constexpr std::int64_t most_blocks = 1024;

  std::int64_t first_of(std::int64_t index) const { return index % size() * sequence_length(); }

  void read_labels(std::int64_t first, std::span<std::int32_t> labels) const {
    joints_.read(first, labels, marker_, [this](std::size_t stream, std::int64_t from, std::span<std::int32_t> part) {
      streams_[stream]->read_labels(from, part);
    });
  }

  // Returns the beginnings of documents after `first`, up to and including `last`.
  std::vector<std::int64_t> begins(std::int64_t first, std::int64_t last) const {
    std::vector<std::int64_t> all;
    joints_.each_sequence(first, last, [&](std::size_t stream, std::int64_t start) {
      if (start > first) all.push_back(start);
      const auto before = all.size();
      streams_[stream]->add_document_begins(std::max<std::int64_t>(first - start, 0), last - start, all);
      for (std::size_t i = before; i < all.size(); ++i) all[i] += start;
    });
    return all;
  }

  void place_documents(std::int64_t first, Sample& sample) const {
    sample.documents.assign(1, 0);
    for (const std::int64_t begin : begins(first, first + sequence_length() - 1))
      sample.documents.push_back(static_cast<std::int32_t>(begin - first));
  }

  // Excludes the first token of each document from the loss, since no earlier document can predict it.
  void isolate(std::int64_t first, Sample& sample) const {
    place_documents(first, sample);
    for (const std::int64_t begin : begins(first, first + sequence_length()))
      sample.labels[static_cast<std::size_t>(begin - first - 1)] = not_counted;
  }

  void count_labels() {
    Sample sample;
    for (std::int64_t index = 0; index < size(); ++index) {
      sample.labels.resize(static_cast<std::size_t>(sequence_length()));
      read_labels(first_of(index) + 1, sample.labels);
      if (isolates_) isolate(first_of(index), sample);
      counted_.push_back(static_cast<std::int32_t>(
          std::count_if(sample.labels.begin(), sample.labels.end(), [](std::int32_t label) { return label >= 0; })));
    }
  }

  std::uint64_t content_of_streams() const {
    const std::int64_t stride = std::max(content_block, joints_.size() / most_blocks);
    Checksum sum;
    for (const auto& stream : streams_) {
      sum.add(static_cast<std::uint64_t>(stream->size()));
      sum.add(stream->content(stride));
    }
    if (isolates_) sum.add(std::uint64_t{1});
    return sum.value();
  }

  std::vector<std::unique_ptr<TokenStream>> streams_;
  Joints joints_;
  std::int32_t marker_;
  bool isolates_, masks_ = false;
  std::vector<std::int32_t> counted_;  // for each sample, if labels are masked
  std::uint64_t content_ = 0;
};

}  // namespace

std::unique_ptr<Dataset> pack(std::vector<std::unique_ptr<TokenStream>> streams, const Packing& packing,
                              const std::string& name) {
  return std::make_unique<PackedDataset>(std::move(streams), packing, name);
}

}  // namespace pipetrain
