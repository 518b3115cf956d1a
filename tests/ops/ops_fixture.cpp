#include "ops_fixture.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <thread>

#include "fp8.hpp"
#include "half.hpp"

namespace pipetrain::testing {
namespace {

constexpr unsigned char poison = 0xFF;
constexpr std::size_t guard = tensor_alignment;  // bytes before and after every tensor

std::vector<unsigned char> encode(const Values& values, DType dtype) {
  std::vector<unsigned char> bytes(values.data.size() * size_of(dtype));
  for (std::size_t i = 0; i < values.data.size(); ++i) {
    unsigned char* at = bytes.data() + i * size_of(dtype);
    if (dtype == DType::f64) {
      std::memcpy(at, &values.data[i], 8);
    } else if (dtype == DType::i32) {
      const auto integer = static_cast<std::int32_t>(values.data[i]);
      std::memcpy(at, &integer, 4);
    } else {
      const auto single = static_cast<float>(rounded(values.data[i], dtype));
      const auto bits = std::bit_cast<std::uint32_t>(single);
      const auto upper = static_cast<std::uint16_t>(bits >> 16), half = test::to_half(single);
      if (size_of(dtype) == 2) {
        std::memcpy(at, dtype == DType::bf16 ? &upper : &half, 2);
      } else {
        std::memcpy(at, &bits, 4);
      }
    }
  }
  return bytes;
}

double decode(const unsigned char* at, DType dtype) {
  if (dtype == DType::f64) {
    double value = 0;
    std::memcpy(&value, at, 8);
    return value;
  }
  if (dtype == DType::i32) {
    std::int32_t value = 0;
    std::memcpy(&value, at, 4);
    return value;
  }
  if (size_of(dtype) == 1) return test::from_fp8(*at, dtype);
  std::uint32_t bits = 0;
  if (size_of(dtype) == 2) {
    std::uint16_t half = 0;
    std::memcpy(&half, at, 2);
    if (dtype == DType::f16) return test::from_half(half);
    bits = static_cast<std::uint32_t>(half) << 16;
  } else {
    std::memcpy(&bits, at, 4);
  }
  return std::bit_cast<float>(bits);
}

}  // namespace

TestRank::TestRank(const OpsBackend& backend, int rank, int threads)
    : rank_(rank),
      device_(backend.make_device(rank, threads)),
      stream_(device_->make_stream("test")),
      ops_(backend.make_ops(*stream_)),
      measuring_(make_measuring_ops()) {}

Tensor TestRank::make(const Shape& shape, DType dtype) {
  Tensor tensor{nullptr, shape, dtype};
  memory_.push_back(device_->allocate(align_up(tensor.bytes()) + 2 * guard, "test tensor"));
  const std::vector<unsigned char> fill(memory_.back().bytes(), poison);
  stream_->copy(memory_.back().data(), fill.data(), fill.size());
  stream_->synchronize();
  tensor.data = static_cast<char*>(memory_.back().data()) + guard;
  return tensor;
}

Tensor TestRank::put(const Values& values, DType dtype) {
  Tensor tensor = make(values.shape, dtype);
  const auto bytes = encode(values, dtype);
  if (!bytes.empty()) stream_->copy(tensor.data, bytes.data(), bytes.size());
  stream_->synchronize();
  return tensor;
}

Tensor TestRank::poisoned(const Shape& shape, DType dtype) { return make(shape, dtype); }

std::vector<unsigned char> TestRank::bytes(const Tensor& tensor) {
  std::vector<unsigned char> bytes(tensor.bytes());
  if (!bytes.empty()) stream_->copy(bytes.data(), tensor.data, bytes.size());
  stream_->synchronize();
  return bytes;
}

Values TestRank::get(const Tensor& tensor) {
  const auto raw = bytes(tensor);
  Values values(tensor.shape);
  for (std::size_t i = 0; i < values.data.size(); ++i) {
    values.data[i] = decode(raw.data() + i * size_of(tensor.dtype), tensor.dtype);
  }
  return values;
}

bool TestRank::guards_intact() {
  return std::all_of(memory_.begin(), memory_.end(), [&](const Buffer& buffer) {
    std::vector<unsigned char> edges(2 * guard);
    stream_->copy(edges.data(), buffer.data(), guard);
    stream_->copy(edges.data() + guard, static_cast<const char*>(buffer.data()) + buffer.bytes() - guard, guard);
    stream_->synchronize();
    return std::all_of(edges.begin(), edges.end(), [](unsigned char byte) { return byte == poison; });
  });
}

TestTeam::TestTeam(const OpsBackend& backend, int ranks, int threads) : backend_(backend) {
  std::vector<Device*> devices;
  for (int rank = 0; rank < ranks; ++rank) {
    ranks_.push_back(std::make_unique<TestRank>(backend, rank, threads));
    devices.push_back(&ranks_.back()->device());
  }
  if (ranks > 1) {
    auto groups = backend.make_groups(devices);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) ranks_[rank]->group_ = std::move(groups[rank]);
  }
}

void TestTeam::run(const std::function<void(TestRank&)>& enqueue) {
  std::vector<std::exception_ptr> failures(ranks_.size());
  const auto one_rank = [&](TestRank& rank) {
    Arena measured = Arena::measuring();
    rank.measuring_->set_workspace(measured);
    rank.current_ops_ = rank.measuring_.get();
    enqueue(rank);

    // At least one byte, because an arena without memory only measures.
    const std::size_t bytes = std::max<std::size_t>(measured.peak() + backend_.extra_workspace(), 1);
    rank.workspace_ = rank.device().allocate(bytes, "test workspace");
    void* memory = rank.workspace_.data();
    const std::vector<unsigned char> fill(bytes, poison);
    rank.stream().copy(memory, fill.data(), bytes);
    rank.stream().synchronize();
    Arena workspace(memory, bytes, "test workspace");
    rank.ops_->set_workspace(workspace);
    rank.current_ops_ = rank.ops_.get();
    enqueue(rank);
    rank.stream().synchronize();
    if (backend_.extra_workspace() == 0 && workspace.peak() != measured.peak()) {
      throw std::runtime_error("ops used " + std::to_string(workspace.peak()) + " bytes of workspace, measured " +
                               std::to_string(measured.peak()));
    }
    if (!rank.guards_intact()) throw std::runtime_error("an operation wrote beside a tensor");
  };
  {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          one_rank(*ranks_[i]);
        } catch (...) {
          failures[i] = std::current_exception();
          if (ranks_[i]->group_) ranks_[i]->group_->abort(failures[i]);
        }
      });
    }
    for (auto& thread : threads) thread.join();
  }
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace pipetrain::testing
