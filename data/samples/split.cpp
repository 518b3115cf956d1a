#include "data/samples/split.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "data/samples/permutation.hpp"

namespace pipetrain {

namespace {

constexpr std::uint64_t split_key = 0x73706c6974;

// A dataset of the drawn samples of the whole, or of all others.
class PartOfSplit : public Dataset {
 public:
  using Indices = std::shared_ptr<const std::vector<std::int64_t>>;  // ascending

  PartOfSplit(std::shared_ptr<const Dataset> whole, Indices drawn, bool has_drawn)
      : Dataset(whole->sequence_length()), whole_(std::move(whole)), drawn_(std::move(drawn)), has_drawn_(has_drawn) {}

  std::int64_t size() const override { return has_drawn_ ? std::ssize(*drawn_) : whole_->size() - std::ssize(*drawn_); }

  using Dataset::read;
  void read(std::int64_t index, Sample& sample) const override { whole_->read(in_whole(index), sample); }
  SampleSize measure(std::int64_t index) const override { return whole_->measure(in_whole(index)); }
  int samples_per_row() const override { return whole_->samples_per_row(); }
  bool isolates_documents() const override { return whole_->isolates_documents(); }
  std::vector<std::int32_t> documents(std::int64_t index) const override { return whole_->documents(in_whole(index)); }

  std::uint64_t content() const override {
    Checksum sum;
    sum.add(whole_->content());
    sum.add(drawn_->data(), drawn_->size() * sizeof drawn_->front());
    sum.add(static_cast<std::uint64_t>(has_drawn_));
    return sum.value();
  }

 private:
  std::int64_t in_whole(std::int64_t index) const {
    const std::int64_t epoch = index / size(), place = index % size();
    return epoch * whole_->size() + (has_drawn_ ? (*drawn_)[static_cast<std::size_t>(place)] : not_drawn(place));
  }
  // Returns the place-th sample that was not drawn: its index grows by the number of drawn samples before it.
  std::int64_t not_drawn(std::int64_t place) const {
    std::int64_t low = 0, high = std::ssize(*drawn_);
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if ((*drawn_)[static_cast<std::size_t>(middle)] - middle <= place) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return place + low;
  }

  std::shared_ptr<const Dataset> whole_;
  Indices drawn_;
  bool has_drawn_;
};

}  // namespace

DataSplit split_dataset(std::shared_ptr<const Dataset> whole, double share, std::uint64_t seed) {
  const std::int64_t together = whole->samples_per_row(), size = whole->size() / together;
  if (size < 2)
    throw Error(ErrorKind::input, {"split", fmt::format("{}", share)},
                "the data has one sample, which cannot be divided; give more data or leave it out");
  const auto wanted = static_cast<std::int64_t>(std::llround(share * static_cast<double>(size)));
  auto drawn = std::make_shared<std::vector<std::int64_t>>();
  const Permutation order(size, derive_key(seed, split_key));
  for (std::int64_t row = 0; row < std::clamp<std::int64_t>(wanted, 1, size - 1); ++row) {
    for (std::int64_t member = 0; member < together; ++member) drawn->push_back(order(row) * together + member);
  }
  std::sort(drawn->begin(), drawn->end());
  return {std::make_shared<PartOfSplit>(whole, drawn, false), std::make_shared<PartOfSplit>(whole, drawn, true)};
}

}  // namespace pipetrain
