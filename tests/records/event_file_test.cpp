// The bytes that TensorBoard's own record writer and protobuf messages gave for the same events. docs/watching.md
// describes the check with the real TensorBoard, tests/apps/train/tensorboard_test.cpp.
#include "records/event_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "catch.hpp"
#include "core/error.hpp"
#include "run_program.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;

namespace {

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

TEST_CASE("event records have the bytes that TensorBoard's own writer gives") {
  CHECK(hex(framed_record(version_event(1.5))) ==
        "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c");
  CHECK(hex(framed_record(start_event(1.5, 301))) == "100000000000000095fbfe1809000000000000f83f10ad023a020801d17949d4");
  CHECK(hex(framed_record(scalars_event(1.5, 300, {{"loss", 2.25}, {"lr", 3e-4}}))) ==
        "2600000000000000734fe30009000000000000f83f10ac022a180a0b0a046c6f737315000010400a090a026c721552499d3958ed3873");
}

TEST_CASE("an event file is readable after every step, and a resumed run writes a later one") {
  const TempFolder folder;
  const auto logs = folder.path() / "made" / "for it";
  EventFile first(logs, 0);
  const std::string begin = read_file(first.path());
  CHECK(begin.size() == 40 + 31);  // the version, and the start at step 1
  first.write(1, {{"loss", 2.25}});
  const std::string after = read_file(first.path());
  CHECK(after.substr(0, begin.size()) == begin);
  CHECK(after.size() == begin.size() + 12 + 9 + 2 + 2 + 2 + 11 + 4);

  const EventFile second(logs, 1), third(logs, 1);  // in the same second, by the same process
  CHECK(files_in(logs) == std::vector{first.path(), second.path(), third.path()});
}

TEST_CASE("an event file without steps leaves nothing, and takes back only what it made") {
  const TempFolder folder;
  const auto logs = folder.path() / "made" / "for it";
  { const EventFile unused(logs, 0); }
  CHECK(files_in(folder.path()).empty());
  EventFile(logs, 0).write(1, {{"loss", 2.25}});
  { const EventFile unused(logs, 1); }
  CHECK(files_in(logs).size() == 1);
  CHECK_THROWS(EventFile(folder.path() / "new" / std::string(300, 'x'), 0));
  CHECK(files_in(folder.path()) == std::vector{folder.path() / "made"});
}

TEST_CASE("a folder for events that cannot be made is refused by its setting") {
  const TempFolder folder;
  std::ofstream(folder.path() / "file") << "x";
  try {
    const EventFile file(folder.path() / "file", 0);
    FAIL("made");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    REQUIRE(error.setting());
    CHECK(error.setting()->name == "tensorboard");
  }
}
