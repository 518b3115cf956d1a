// Shared memory is locked chunk by chunk; a device copies straight to and from the locked ones.
#include "actors/training/copies/locked_chunks.hpp"

#include <algorithm>
#include <set>
#include <thread>

#include "actors/training/copies/staged_transfers.hpp"
#include "catch.hpp"
#include "core/cpu_device.hpp"
#include "core/error.hpp"
#include "skip.hpp"

using namespace pipetrain;

namespace {

constexpr std::size_t chunk = 4096;

struct Copied {
  const void* target;
  const void* source;
};

// Notes each copy before the CPU makes it.
class NotingStream : public Stream {
 public:
  NotingStream(std::unique_ptr<Stream> stream, std::vector<Copied>& copies) : stream_(std::move(stream)), copies_(copies) {}
  Device& device() const override { return stream_->device(); }
  void record(Event& event) override { stream_->record(event); }
  void wait(const Event& event) override { stream_->wait(event); }
  void host_callback(std::function<void()> callback) override { stream_->host_callback(std::move(callback)); }
  void copy(void* target, const void* source, std::size_t bytes) override {
    copies_.push_back({target, source});
    stream_->copy(target, source, bytes);
  }
  void zero(const Tensor& tensor) override { stream_->zero(tensor); }
  void synchronize() override { stream_->synchronize(); }
  std::exception_ptr failure() const override { return stream_->failure(); }
  void fail(std::exception_ptr cause) override { stream_->fail(std::move(cause)); }

 private:
  std::unique_ptr<Stream> stream_;
  std::vector<Copied>& copies_;
};

// Locks this many pieces of memory in all, then none, as where a limit is reached.
class LockingDevice : public CpuDevice {
 public:
  explicit LockingDevice(std::size_t most) : CpuDevice(0, 1), most_(most) {}
  Buffer lock_host_memory(void* begin, std::size_t bytes) override {
    if (tries++ == most_) throw Error(ErrorKind::unavailable, "no more");
    locked.insert(begin);
    return Buffer(begin, bytes, [this](void* memory) { locked.erase(memory); });
  }
  std::unique_ptr<Stream> make_stream(const std::string& name) override {
    return std::make_unique<NotingStream>(CpuDevice::make_stream(name), copies);
  }

  std::size_t tries = 0;
  std::set<void*> locked;
  std::vector<Copied> copies;

 private:
  std::size_t most_;
};

struct SharedBytes {
  std::shared_ptr<SharedMemory> memory;
  std::shared_ptr<LockedChunks> chunks;

  explicit SharedBytes(std::size_t bytes)
      : memory(SharedMemory::make(bytes)), chunks(std::make_shared<LockedChunks>(memory, chunk)) {}
  std::byte* data() const { return static_cast<std::byte*>(memory->data()); }
};

bool is_extent(const LockedChunks::Extent& extent, std::size_t bytes, bool is_locked) {
  return extent.bytes == bytes && extent.is_locked == is_locked;
}

}  // namespace

TEST_CASE("shared memory is locked chunk by chunk for as long as the chunks live", "[copies]") {
  LockingDevice device(100);
  SharedBytes shared(2 * chunk + 10);
  const LockedChunks& chunks = *shared.chunks;
  const std::byte* const begin = shared.data();
  CHECK(is_extent(chunks.extent(begin, 5 * chunk), 5 * chunk, false));
  CHECK(shared.chunks->lock_next(device));
  CHECK(chunks.locked_bytes() == chunk);
  CHECK(is_extent(chunks.extent(begin, 5 * chunk), chunk, true));
  CHECK(is_extent(chunks.extent(begin + 100, 50), 50, true));
  CHECK(is_extent(chunks.extent(begin + chunk - 1, 50), 1, true));
  CHECK(is_extent(chunks.extent(begin + chunk, 50), 50, false));
  CHECK(shared.chunks->lock_next(device));
  CHECK(shared.chunks->lock_next(device));
  CHECK_FALSE(shared.chunks->lock_next(device));
  CHECK(chunks.locked_bytes() == 2 * chunk + 10);
  CHECK(is_extent(chunks.extent(begin + chunk, 2 * chunk), chunk, true));
  CHECK(is_extent(chunks.extent(begin + 2 * chunk + 4, 6), 6, true));
  int other = 0;
  CHECK(is_extent(chunks.extent(&other, sizeof other), sizeof other, false));
  CHECK(device.tries == 3);
  CHECK(device.locked.size() == 3);
  shared.memory = {};  // the chunks have it
  shared.chunks = {};
  CHECK(device.locked.empty());
}

TEST_CASE("a chunk that cannot be locked is the last one that is tried", "[copies]") {
  LockingDevice device(1);
  SharedBytes shared(3 * chunk);
  CHECK(shared.chunks->lock_next(device));
  CHECK_THROWS_WITH(shared.chunks->lock_next(device), "no more");
  CHECK_FALSE(shared.chunks->lock_next(device));
  CHECK(device.tries == 2);
  CHECK(shared.chunks->locked_bytes() == chunk);
}

TEST_CASE("a device copies straight to locked chunks and through staging memory to all others", "[copies]") {
  constexpr std::size_t bytes = 10 * chunk;
  const std::size_t locked = GENERATE(0U, 1U, 4U, 10U);
  LockingDevice device(locked);
  SharedBytes shared(bytes);
  for (std::size_t i = 0; i < locked; ++i) shared.chunks->lock_next(device);
  std::vector<std::byte> source(bytes);
  for (std::size_t i = 0; i < bytes; ++i) source[i] = static_cast<std::byte>(i * 7 + i / 256);
  StagedTransfers transfers(device, bytes, shared.chunks);
  std::vector<StagedTransfers::Part> parts;  // which begin and end within chunks
  for (std::size_t begin = 0, count = 1000; begin < bytes; begin += count, count = std::min(2 * count, bytes - begin))
    parts.push_back({source.data() + begin, shared.data() + begin, std::min(count, bytes - begin)});
  transfers.read(parts, {});
  transfers.wait();
  CHECK(std::equal(source.begin(), source.end(), shared.data()));
  const auto is_shared = [&](const void* memory) {
    const auto* const at = static_cast<const std::byte*>(memory);
    return std::less_equal<>{}(shared.data(), at) && std::less<>{}(at, shared.data() + bytes);
  };
  const auto is_direct = [&](const Copied& copy) { return is_shared(copy.target) || is_shared(copy.source); };
  for (const Copied& copy : device.copies) {
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(copy.source) - source.data());
    CHECK(is_direct(copy) == (offset < locked * chunk));
  }
  device.copies.clear();
  std::vector<std::byte> restored(bytes);
  transfers.write(restored.data(), shared.data(), bytes);
  CHECK(restored == source);
  CHECK(std::count_if(device.copies.begin(), device.copies.end(), is_direct) == static_cast<std::ptrdiff_t>(locked));
}

TEST_CASE("chunks are locked while a device copies to them", "[copies]") {
  constexpr std::size_t bytes = 300 * chunk;
  LockingDevice device(1000);
  SharedBytes shared(bytes);
  StagedTransfers transfers(device, bytes, shared.chunks);
  std::thread locking([&] {
    while (shared.chunks->lock_next(device)) {
    }
  });
  for (int round = 1; round < 20; ++round) {
    const std::vector<std::byte> source(bytes, static_cast<std::byte>(round));
    transfers.read({{source.data(), shared.data(), bytes}}, {});
    transfers.wait();
    CHECK(std::equal(source.begin(), source.end(), shared.data()));
  }
  locking.join();
  CHECK(shared.chunks->locked_bytes() == bytes);
}

TEST_CASE("a GPU copies to and from shared memory while its chunks are locked", "[copies][gpu]") {
  if (!test::needs_gpus(cuda_device_count())) return;
  constexpr std::size_t bytes = 5 * (LockedChunks::usual_chunk_bytes / 2) + 12;
  const auto device = make_cuda_device(0);
  const auto memory = SharedMemory::make(2 * bytes);
  const auto chunks = std::make_shared<LockedChunks>(memory);
  StagedTransfers transfers(*device, bytes, chunks);
  std::vector<std::byte> source(bytes), restored(bytes);
  const Buffer values = device->allocate(bytes, "values");
  std::thread locking([&] {
    while (chunks->lock_next(*device)) {
    }
  });
  for (int round = 0; round < 8; ++round) {  // the last ones find all chunks locked
    if (round == 4) locking.join();
    for (std::size_t i = 0; i < bytes; ++i)
      source[i] = static_cast<std::byte>(i * 7 + i / 256 + static_cast<std::size_t>(round));
    transfers.write(values.data(), source.data(), bytes);
    auto* const copy = static_cast<std::byte*>(memory->data()) + (round % 2) * bytes;
    transfers.read({{values.data(), copy, bytes}}, {});
    transfers.wait();
    CHECK(std::equal(source.begin(), source.end(), copy));
    transfers.write(values.data(), copy, bytes);
    transfers.read({{values.data(), restored.data(), bytes}}, {});  // memory that is not shared
    transfers.wait();
    CHECK(restored == source);
  }
  CHECK(chunks->locked_bytes() == 2 * bytes);
}
