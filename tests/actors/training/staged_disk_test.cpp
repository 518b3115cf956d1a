// Data that moves between a device and a disk through host memory keeps its bytes.
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "actors/training/offload/offload_storage.hpp"
#include "catch.hpp"
#include "core/device.hpp"
#include "core/error.hpp"
#include "core/threads/on_threads.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;

namespace {

constexpr std::size_t granularity = OffloadStorage::granularity;

// A device whose streams fetch and store, and as many slots of memory.
struct Moving {
  explicit Moving(std::size_t slot_bytes, int slots)
      : device(make_cpu_device(0, 1)), bytes(slot_bytes), memory(device->allocate(slot_bytes * slots + granularity, "slots")) {
    const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
    first = reinterpret_cast<char*>((at + granularity - 1) / granularity * granularity);
    in = device->make_stream("in"), out = device->make_stream("out");
    for (int i = 0; i < slots; ++i) fetched.push_back(device->make_event()), stored.push_back(device->make_event());
  }
  char* slot(std::size_t i) const { return first + i * bytes; }

  std::unique_ptr<Device> device;
  std::size_t bytes;
  Buffer memory;
  char* first;
  std::vector<std::unique_ptr<Event>> fetched, stored;
  std::unique_ptr<Stream> in, out;
};

}  // namespace

TEST_CASE("blocks that go to a disk by way of the host come back as they went, in any order and size of step") {
  // The block sizes are less than a piece, one piece and several.
  for (const std::size_t block : {16 * granularity, std::size_t{33} << 20}) {
    constexpr std::size_t blocks = 5, slots = 2;
    const TempFolder folder;
    const auto device = make_cpu_device(0, 1);
    const auto place = make_staged_disk_storage(*device, folder.path(), {blocks * block, block});
    CHECK(names_in(folder.path()).empty());
    std::vector<std::vector<char>> expected(blocks, std::vector<char>(block));
    std::mt19937 random(3);
    for (auto& one : expected)
      for (std::size_t i = 0; i < block; i += 7) one[i] = static_cast<char>(random());
    for (std::size_t i = 0; i < blocks; ++i) place->write(i * block, expected[i].data(), block);
    Moving moving(block, slots);
    for (int pass = 0; pass < 4; ++pass) {
      for (std::size_t i = 0; i < blocks; ++i) {
        const std::size_t at = i % slots;
        moving.in->wait(*moving.stored[at]);
        place->fetch(*moving.in, i * block, moving.slot(at), block);
        moving.in->record(*moving.fetched[at]);
        moving.out->wait(*moving.fetched[at]);
        moving.out->host_callback([memory = moving.slot(at), block] {
          for (std::size_t byte = 0; byte < block; byte += 4093) ++memory[byte];
        });
        place->store(*moving.out, i * block, moving.slot(at), block);
        moving.out->record(*moving.stored[at]);
        for (std::size_t byte = 0; byte < block; byte += 4093) ++expected[i][byte];
      }
    }
    moving.in->synchronize();
    moving.out->synchronize();
    std::vector<char> found(block);
    for (std::size_t i = 0; i < blocks; ++i) {
      place->read(i * block, found.data(), block);
      CHECK(std::memcmp(found.data(), expected[i].data(), block) == 0);
    }
  }
}

TEST_CASE("several threads write different bytes of one place, host memory or a disk, whatever pages these share") {
  const TempFolder folder;
  const auto device = make_cpu_device(0, 1);
  constexpr std::size_t count = 40'000, each = 257;
  std::unique_ptr<OffloadStorage> places[] = {make_host_storage(*device, count * each, "bytes"),
                                              make_disk_storage(*device, folder.path(), {3000 * granularity, granularity})};
  for (const auto& place : places) {
    on_threads(4, 100, [&](std::size_t i) {
      const std::size_t begin = i * count / 100 * each, bytes = count / 100 * each;
      place->write(begin, std::string(bytes, static_cast<char>(i)).data(), bytes);
    });
    std::string all(count * each, 'x');
    place->read(0, all.data(), all.size());
    bool same = true;
    for (std::size_t i = 0; i < all.size(); ++i) same = same && all[i] == static_cast<char>(i / (count / 100 * each));
    CHECK(same);
  }
}

TEST_CASE("a full disk ends the stream that writes to it, by its folder's name, and nothing waits for ever") {
  constexpr std::size_t block = 4 * granularity;
  const TempFolder folder;
  const auto device = make_cpu_device(0, 1);
  const auto place = make_staged_disk_storage(*device, folder.path(), {8 * block, block});
  Moving moving(block, 1);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  auto* const ignored = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{2 * block, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  for (std::size_t i = 0; i < 8; ++i) place->store(*moving.out, i * block, moving.slot(0), block);
  for (std::size_t i = 0; i < 8; ++i) place->fetch(*moving.in, i * block, moving.slot(0), block);
  try {
    moving.in->synchronize();  // reads wait for the stores before them
  } catch (const Error&) {
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, ignored);
  CHECK_THROWS_WITH(moving.out->synchronize(), Catch::Contains(folder.path().string()));
  char byte = 0;
  CHECK_THROWS_AS(place->read(0, &byte, 1), Error);
}
