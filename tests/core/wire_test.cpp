#include "core/wire.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "catch.hpp"
#include "core/error.hpp"

using namespace pipetrain;

namespace {

enum class Colour : std::uint8_t { red, green, blue };
enum class Signed : int { zero, one };

template <class T>
Bytes bytes_of(T value) {
  WireWriter writer;
  writer.number(value);
  return std::move(writer).data();
}

// Returns how reading ends when `random` chooses the reads.
std::string end_of(const Bytes& bytes, std::mt19937& random) {
  WireReader reader(bytes);
  try {
    for (;;) {
      const std::size_t before = reader.left();
      switch (random() % 7) {
        case 0:
          reader.number<std::uint64_t>();
          break;
        case 1:
          reader.flag();
          break;
        case 2:
          if (reader.text().size() > bytes.size()) return "a text longer than the bytes";
          break;
        case 3:
          if (reader.bytes().size() > bytes.size()) return "more bytes than there are";
          break;
        case 4:
          if (reader.count(4) > bytes.size() / 4) return "more elements than bytes";
          break;
        case 5:
          if (reader.choice(Colour::blue) > Colour::blue) return "a colour that does not exist";
          break;
        default:
          reader.number<float>();
      }
      if (reader.left() >= before) return "nothing was taken";
    }
  } catch (const Error& error) {
    return error.kind() == ErrorKind::peer_lost ? "refused" : "another error";
  }
}

}  // namespace

TEST_CASE("values written for another process are read back unchanged", "[wire]") {
  WireWriter writer;
  writer.number(std::numeric_limits<std::int64_t>::min());
  writer.number(std::uint16_t{65535});
  writer.number(-0.0F);
  writer.number(std::numeric_limits<double>::infinity());
  writer.number(std::numeric_limits<double>::quiet_NaN());
  writer.number(std::numeric_limits<double>::denorm_min());
  writer.number(Colour::green);
  writer.flag(true);
  writer.flag(false);
  writer.text("");
  writer.text(std::string("a\0b", 3));
  writer.bytes(bytes_of(7));
  writer.list(std::vector<std::string>{"x", "yz"}, [&](const std::string& word) { writer.text(word); });

  WireReader reader(writer.data());
  CHECK(reader.number<std::int64_t>() == std::numeric_limits<std::int64_t>::min());
  CHECK(reader.number<std::uint16_t>() == 65535);
  CHECK(std::signbit(reader.number<float>()));
  CHECK(std::isinf(reader.number<double>()));
  CHECK(std::isnan(reader.number<double>()));
  CHECK(reader.number<double>() == std::numeric_limits<double>::denorm_min());
  CHECK(reader.choice(Colour::blue) == Colour::green);
  CHECK(reader.flag());
  CHECK_FALSE(reader.flag());
  CHECK(reader.text().empty());
  CHECK(reader.text() == std::string("a\0b", 3));
  CHECK(reader.bytes().size() == sizeof(int));
  REQUIRE(reader.count(4) == 2);
  CHECK(reader.text() == "x");
  CHECK_THROWS_AS(reader.end(), Error);
  CHECK(reader.text() == "yz");
  CHECK(reader.left() == 0);
  CHECK_NOTHROW(reader.end());
}

TEST_CASE("numbers for other processes are little-endian", "[wire]") {
  CHECK(bytes_of(std::uint32_t{0x01020304}) == Bytes{std::byte{4}, std::byte{3}, std::byte{2}, std::byte{1}});
  CHECK(bytes_of(1.0F) == bytes_of(std::uint32_t{0x3f800000}));
}

TEST_CASE("bytes that do not fit the read type are refused", "[wire]") {
  const auto error_of = [](const Bytes& bytes, auto read) -> std::string {
    WireReader reader(bytes);
    try {
      read(reader);
    } catch (const Error& error) {
      return error.kind() == ErrorKind::peer_lost ? error.what() : "another kind";
    }
    return "nothing";
  };
  using Catch::Contains;
  const Bytes huge = bytes_of(std::uint32_t{0xffffffff});
  CHECK_THAT(error_of({}, [](auto& reader) { reader.flag(); }), Contains("fewer bytes than it claims"));
  CHECK_THAT(error_of(huge, [](auto& reader) { reader.text(); }), Contains("fewer bytes than it claims"));
  CHECK_THAT(error_of(huge, [](auto& reader) { reader.bytes(); }), Contains("fewer bytes than it claims"));
  CHECK_THAT(error_of(huge, [](auto& reader) { reader.count(1); }), Contains("more elements than bytes"));
  CHECK_THAT(error_of(bytes_of(std::uint8_t{2}), [](auto& reader) { reader.flag(); }), Contains("neither true nor false"));
  CHECK_THAT(error_of(bytes_of(std::uint8_t{3}), [](auto& reader) { reader.choice(Colour::blue); }),
             Contains("does not exist"));
  CHECK_THAT(error_of(bytes_of(-1), [](auto& reader) { reader.choice(Signed::one); }), Contains("does not exist"));
  CHECK_THAT(error_of(bytes_of(1), [](auto& reader) { reader.end(); }), Contains("more bytes than it should"));
}

TEST_CASE("a reader never reads beyond the bytes, whatever they are", "[wire]") {
  std::mt19937 random(14);
  for (int round = 0; round < 20'000; ++round) {
    Bytes bytes(random() % 200);
    // Makes many small values, since lengths must fit.
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % (random() % 3 == 0 ? 256 : 4));
    REQUIRE(end_of(bytes, random) == "refused");
  }
}
