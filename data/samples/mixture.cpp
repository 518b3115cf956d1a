#include "data/samples/mixture.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "core/checksum.hpp"
#include "data/samples/permutation.hpp"

namespace pipetrain {

namespace {

std::int64_t total_size(const std::vector<std::unique_ptr<Dataset>>& parts) {
  return std::accumulate(parts.begin(), parts.end(), std::int64_t{0},
                         [](std::int64_t sum, const auto& part) { return sum + part->size(); });
}

void add_contents(Checksum& sum, const std::vector<std::unique_ptr<Dataset>>& parts) {
  for (const auto& part : parts) {
    sum.add(static_cast<std::uint64_t>(part->size()));
    sum.add(part->content());
  }
}

struct SampleLocation {
  const Dataset* part;
  std::int64_t index;  // in the part, counting on over epochs
};

// A dataset that takes its samples from other datasets.
class OfParts : public Dataset {
 public:
  explicit OfParts(std::vector<std::unique_ptr<Dataset>> parts)
      : Dataset(parts.front()->sequence_length()), parts_(std::move(parts)) {}

  using Dataset::read;
  void read(std::int64_t index, Sample& sample) const override {
    const SampleLocation sample_at = locate(index);
    sample_at.part->read(sample_at.index, sample);
  }
  SampleSize measure(std::int64_t index) const override {
    const SampleLocation sample_at = locate(index);
    return sample_at.part->measure(sample_at.index);
  }
  int samples_per_row() const override { return parts_.front()->samples_per_row(); }
  bool isolates_documents() const override {
    return std::any_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->isolates_documents(); });
  }
  std::vector<std::int32_t> documents(std::int64_t index) const override {
    const SampleLocation sample_at = locate(index);
    return sample_at.part->documents(sample_at.index);
  }

 protected:
  virtual SampleLocation locate(std::int64_t index) const = 0;

  std::vector<std::unique_ptr<Dataset>> parts_;
};

class Concatenation : public OfParts {
 public:
  explicit Concatenation(std::vector<std::unique_ptr<Dataset>> parts) : OfParts(std::move(parts)) {
    for (const auto& part : parts_) ends_.push_back((ends_.empty() ? 0 : ends_.back()) + part->size());
  }

  std::int64_t size() const override { return ends_.back(); }

  std::uint64_t content() const override {
    Checksum sum;
    add_contents(sum, parts_);
    return sum.value();
  }

 private:
  SampleLocation locate(std::int64_t index) const override {
    const std::int64_t position = index % size();
    const auto part = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), position) - ends_.begin());
    return {parts_[part].get(), position - (part == 0 ? 0 : ends_[part - 1])};
  }

  std::vector<std::int64_t> ends_;
};

// The next sample of a part is determined by the number of its earlier draws. These numbers are stored for every block_size-th
// sample, and the draws after that are repeated when a sample is read. That takes little memory and keeps reads independent.
class Mixture : public OfParts {
 public:
  Mixture(std::vector<std::unique_ptr<Dataset>> parts, const std::vector<double>& weights, bool shuffle, std::uint64_t seed)
      : OfParts(std::move(parts)), size_(total_size(parts_)), shuffle_(shuffle), seed_(seed) {
    // Weights are scaled by a power of two, which is exact, so that the sum cannot overflow.
    const int exponent = std::ilogb(*std::max_element(weights.begin(), weights.end()));
    const auto scaled = [exponent](double weight) { return std::scalbn(weight, -exponent); };
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0,
                                       [&](double total, double weight) { return total + scaled(weight); });
    double odds = 0;
    for (const double weight : weights) limits_.push_back(odds += scaled(weight) / sum);
    count_draws();
  }

  std::int64_t size() const override { return size_; }

  std::uint64_t content() const override {
    Checksum sum;
    add_contents(sum, parts_);
    sum.add(limits_.data(), limits_.size() * sizeof limits_[0]);
    return sum.value();
  }

 private:
  SampleLocation locate(std::int64_t index) const override {
    const std::int64_t position = index % size_;
    const std::size_t part = draw(position);
    const std::int64_t turn = index / size_ * in_epoch_[part] + drawn_before(position, part);
    const std::int64_t samples = parts_[part]->size();
    std::int64_t sample = turn % samples;
    if (shuffle_) {
      const std::uint64_t pass = static_cast<std::uint64_t>(turn / samples);
      sample = Permutation(samples, derive_key(seed_, order_key + part, pass))(sample);
    }
    return {parts_[part].get(), turn / samples * samples + sample};
  }

  static constexpr std::int64_t block_size = 1024;
  static constexpr std::uint64_t draw_key = 0x6d6978;
  static constexpr std::uint64_t order_key = 0x6d697800000000;

  std::size_t draw(std::int64_t position) const {
    const double uniform = std::ldexp(
        static_cast<double>(random_bits(derive_key(seed_, draw_key), static_cast<std::uint64_t>(position)) >> 11), -53);
    const auto part = std::upper_bound(limits_.begin(), limits_.end(), uniform) - limits_.begin();
    return std::min(static_cast<std::size_t>(part), parts_.size() - 1);  // the last limit may round to below 1
  }

  void count_draws() {
    in_epoch_.assign(parts_.size(), 0);
    for (std::int64_t position = 0; position < size_; ++position) {
      if (position % block_size == 0) at_block_.insert(at_block_.end(), in_epoch_.begin(), in_epoch_.end());
      ++in_epoch_[draw(position)];
    }
  }

  std::int64_t drawn_before(std::int64_t position, std::size_t part) const {
    const std::int64_t block = position / block_size;
    std::int64_t count = at_block_[static_cast<std::size_t>(block) * parts_.size() + part];
    for (std::int64_t earlier = block * block_size; earlier < position; ++earlier) count += draw(earlier) == part;
    return count;
  }

  std::int64_t size_;
  bool shuffle_;
  std::uint64_t seed_;
  std::vector<double> limits_;          // cumulative odds
  std::vector<std::int64_t> in_epoch_;  // each part's draws in one epoch
  std::vector<std::int64_t> at_block_;  // [block][part]: draws before the block
};

}  // namespace

std::unique_ptr<Dataset> concatenate(std::vector<std::unique_ptr<Dataset>> parts) {
  assert(!parts.empty());
  if (parts.size() == 1) return std::move(parts.front());
  return std::make_unique<Concatenation>(std::move(parts));
}

std::unique_ptr<Dataset> mix(std::vector<std::unique_ptr<Dataset>> parts, const std::vector<double>& weights, bool shuffle,
                             std::uint64_t seed) {
  assert(!parts.empty() && parts.size() == weights.size());
  return std::make_unique<Mixture>(std::move(parts), weights, shuffle, seed);
}

}  // namespace pipetrain
