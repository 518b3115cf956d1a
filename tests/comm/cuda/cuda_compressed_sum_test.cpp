// Sums in blocks of few bits on GPUs, beside those of the CPU.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "comm/compressed/compressed_sum.hpp"
#include "comm/groups.hpp"
#include "core/device.hpp"
#include "skip.hpp"

namespace pipetrain {
namespace {

using Numbers = std::vector<float>;

std::vector<Numbers> drawn_members(int members, std::int64_t elements, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<Numbers> made(static_cast<std::size_t>(members), Numbers(static_cast<std::size_t>(elements)));
  for (Numbers& own : made)
    for (float& value : own) value = normal(random) * std::exp2(static_cast<float>(random() % 20) - 10);
  return made;
}

// The members of a group, each with its numbers, their averages and sizes, and its errors.
class Members {
 public:
  Members(DeviceKind kind, BlockCode code, int count, std::int64_t elements, bool scaled)
      : code_(code), elements_(elements), scaled_(scaled) {
    std::vector<Device*> devices;
    for (int rank = 0; rank < count; ++rank) {
      devices_.push_back(kind == DeviceKind::cpu ? make_cpu_device(rank, 1) : make_cuda_device(rank % cuda_device_count()));
      devices.push_back(devices_.back().get());
    }
    auto groups = make_groups(devices);
    for (int rank = 0; rank < count; ++rank) {
      Device& device = *devices[static_cast<std::size_t>(rank)];
      streams_.push_back(device.make_stream("test"));
      memory_.push_back(device.allocate(5 * size() * sizeof(float), "a test's numbers"));
      groups_.push_back(std::move(groups[static_cast<std::size_t>(rank)]));
      sums_.push_back(std::make_unique<CompressedSum>(device, groups_.back(), code, "test"));
      put(rank, Part::error, Numbers(size())), put(rank, Part::sum_error, Numbers(size()));
      const Numbers fixed = drawn_members(1, elements, 77).front();
      Numbers squares = fixed;
      for (float& value : squares) value = value * value + 0.01F;
      put(rank, Part::averages, fixed), put(rank, Part::squares, squares);
    }
  }

  // Returns the sums of each member. owners: of the blocks; `for_all`: all members get all sums.
  std::vector<Numbers> sum(const std::vector<Numbers>& values, const RowSplit& owners, bool for_all) {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < sums_.size(); ++i) put(static_cast<int>(i), Part::values, values[i]);
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      threads.emplace_back([&, i] {
        const auto rank = static_cast<int>(i);
        CompressedPart part{.values = at(rank, Part::values),
                            .elements = elements_,
                            .error = at(rank, Part::error),
                            .sum_error = for_all ? at(rank, Part::sum_error) : nullptr,
                            .owners = owners};
        if (scaled_) {
          part.averages = at(rank, Part::averages), part.fresh = 0.25F, part.kept = 0.5F;
          part.scales = {at(rank, Part::squares), 1.5F, 1e-3F};
        }
        sums_[i]->sum(*streams_[i], part);
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::vector<Numbers> results;
    for (std::size_t i = 0; i < sums_.size(); ++i) results.push_back(get(static_cast<int>(i), Part::values));
    return results;
  }
  Numbers errors(int rank) { return get(rank, Part::error); }
  RowSplit even() const { return RowSplit(blocks_of(code_, elements_), static_cast<int>(sums_.size())); }

 private:
  enum class Part { values, error, sum_error, averages, squares };

  std::size_t size() const { return static_cast<std::size_t>(elements_); }
  float* at(int rank, Part part) {
    return static_cast<float*>(memory_[static_cast<std::size_t>(rank)].data()) + static_cast<std::size_t>(part) * size();
  }
  void put(int rank, Part part, const Numbers& numbers) {
    Stream& stream = *streams_[static_cast<std::size_t>(rank)];
    stream.copy(at(rank, part), numbers.data(), size() * sizeof(float));
    stream.synchronize();
  }
  Numbers get(int rank, Part part) {
    Numbers numbers(size());
    Stream& stream = *streams_[static_cast<std::size_t>(rank)];
    stream.copy(numbers.data(), at(rank, part), size() * sizeof(float));
    stream.synchronize();
    return numbers;
  }

  BlockCode code_;
  std::int64_t elements_;
  bool scaled_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<Buffer> memory_;
  std::vector<std::shared_ptr<Group>> groups_;
  std::vector<std::unique_ptr<CompressedSum>> sums_;
};

// Returns the elements whose relative difference exceeds the tolerance: those where a rounding or a sign went the other way.
std::size_t far_apart(const Numbers& a, const Numbers& b, double tolerance) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += std::abs(a[i] - b[i]) > tolerance * std::max(1e-3F, std::abs(b[i]));
  return count;
}

}  // namespace

TEST_CASE("compressed sums of GPUs are those of the CPU: in int8 to the bit, in 1 bit within rounding", "[gpu][compress]") {
  if (!test::needs_gpus(cuda_device_count())) return;
  const auto code = GENERATE(BlockCode::int8, BlockCode::sign);
  const bool scaled = GENERATE(false, true), for_all = GENERATE(true, false);
  for (const int count : {2, 3}) {
    for (const std::int64_t elements :
         {std::int64_t{1}, std::int64_t{255}, std::int64_t{5000}, std::int64_t{9000} * 256 + 17}) {
      INFO(name_of(code) << ", " << count << " members, " << elements << " elements, scaled " << scaled << ", all " << for_all);
      Members cpu(DeviceKind::cpu, code, count, elements, scaled), gpu(DeviceKind::cuda, code, count, elements, scaled),
          again(DeviceKind::cuda, code, count, elements, scaled);
      for (unsigned call = 0; call < 2; ++call) {
        const auto values = drawn_members(count, elements, call);
        const auto expected = cpu.sum(values, cpu.even(), for_all), sums = gpu.sum(values, gpu.even(), for_all);
        CHECK((again.sum(values, gpu.even(), for_all) == sums));
        if (for_all) CHECK((sums[1] == sums[0]));
        // Where owners alone get their sums, the other values of a member have no meaning.
        if (code == BlockCode::int8) {
          CHECK((!for_all || sums == expected));
          CHECK((gpu.errors(0) == cpu.errors(0)));
        } else if (for_all) {
          CHECK(far_apart(sums[0], expected[0], 1e-3) <= sums[0].size() / 1000);
        }
      }
    }
  }
}

TEST_CASE("owners on GPUs get the same sums whichever blocks they own", "[gpu][compress]") {
  if (!test::needs_gpus(cuda_device_count())) return;
  const std::int64_t elements = 9000 * 256 + 17;
  const auto values = drawn_members(2, elements, 3);
  Members even(DeviceKind::cuda, BlockCode::int8, 2, elements, false),
      uneven(DeviceKind::cuda, BlockCode::int8, 2, elements, false), cpu(DeviceKind::cpu, BlockCode::int8, 2, elements, false);
  const auto first = even.sum(values, even.even(), false), expected = cpu.sum(values, cpu.even(), false),
             second = uneven.sum(values, RowSplit(std::vector<std::int64_t>{0, 256, 9001}), false);
  std::size_t apart = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(elements); ++i) {
    const std::size_t by_even = i < std::size_t{4501} * 256 ? 0 : 1, by_uneven = i < std::size_t{256} * 256 ? 0 : 1;
    apart += first[by_even][i] != second[by_uneven][i] || first[by_even][i] != expected[by_even][i];
  }
  CHECK(apart == 0);
}

TEST_CASE("a block of a GPU with a number that is not finite decodes to NaN and keeps its errors", "[gpu][compress]") {
  if (!test::needs_gpus(cuda_device_count())) return;
  const auto code = GENERATE(BlockCode::int8, BlockCode::sign);
  Members gpu(DeviceKind::cuda, code, 2, 3000, false);
  auto values = drawn_members(2, 3000, 5);
  values[0][1500] = std::numeric_limits<float>::infinity();
  const auto sums = gpu.sum(values, gpu.even(), true);
  CHECK(std::isnan(sums[1][1500]));
  CHECK(std::isfinite(sums[1][0]));
  CHECK(gpu.errors(0)[1500] == 0);
}

}  // namespace pipetrain
