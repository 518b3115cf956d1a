#include "files/direct_file.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <thread>

#include "catch.hpp"
#include "core/error.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using Catch::Contains;

namespace {

constexpr std::size_t page = DirectFile::alignment;

struct Pages {
  explicit Pages(std::size_t count)
      : bytes(count * page), data(static_cast<unsigned char*>(std::aligned_alloc(page, count * page)), &std::free) {
    std::memset(data.get(), 0xEE, bytes);
  }
  std::size_t bytes;
  std::unique_ptr<unsigned char, decltype(&std::free)> data;
};

}  // namespace

TEST_CASE("a direct file gives back what was written in any order, zeros elsewhere, and leaves nothing in its folder") {
  const TempFolder folder;
  constexpr std::size_t pages = 12000;  // more requests than are in flight at once
  DirectFile file(folder.path(), pages * page);
  CHECK(names_in(folder.path()).empty());
  Pages written(pages - 7), read(pages);
  std::mt19937 random(3);
  std::generate(written.data.get(), written.data.get() + written.bytes, [&] { return static_cast<unsigned char>(random()); });
  const std::size_t half = written.bytes / 2 / page * page;
  file.write(5 * page + half, written.data.get() + half, written.bytes - half);
  file.write(5 * page, written.data.get(), half);
  file.read(0, read.data.get(), read.bytes);
  const auto* const bytes = read.data.get();
  CHECK(std::memcmp(bytes + 5 * page, written.data.get(), written.bytes) == 0);
  CHECK(std::all_of(bytes, bytes + 5 * page, [](unsigned char byte) { return byte == 0; }));
  CHECK(std::all_of(bytes + (pages - 2) * page, bytes + pages * page, [](unsigned char byte) { return byte == 0; }));
}

TEST_CASE("a direct file is read and written at the same time") {
  const TempFolder folder;
  constexpr std::size_t pages = 2048;
  DirectFile file(folder.path(), 2 * pages * page);
  Pages first(pages), second(pages), read(pages);
  std::memset(first.data.get(), 1, first.bytes);
  std::memset(second.data.get(), 2, second.bytes);
  file.write(0, first.data.get(), first.bytes);
  std::thread writer([&] {
    for (int i = 0; i < 5; ++i) file.write(second.bytes, second.data.get(), second.bytes);
  });
  bool same = true;
  for (int i = 0; i < 5; ++i) {
    file.read(0, read.data.get(), read.bytes);
    same = same && std::memcmp(read.data.get(), first.data.get(), first.bytes) == 0;
  }
  writer.join();
  CHECK(same);
  file.read(second.bytes, read.data.get(), read.bytes);
  CHECK(std::memcmp(read.data.get(), second.data.get(), second.bytes) == 0);
}

TEST_CASE("a folder that cannot hold direct files is named, with why") {
  const TempFolder folder;
  CHECK_THROWS_WITH(DirectFile(folder.path() / "none", page), Contains("none: no file can be made in it"));
  CHECK_THROWS_WITH(DirectFile(folder.write("file", ""), page), Contains("file: no file can be made in it"));
  CHECK_THROWS_WITH(DirectFile("/proc", page), Contains("no direct I/O"));
  CHECK_THROWS_WITH(DirectFile(folder.path(), std::size_t{1} << 60), Contains("cannot be reserved on its disk"));
}
