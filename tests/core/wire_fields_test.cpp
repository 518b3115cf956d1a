#include "core/wire_fields.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "core/error.hpp"

using namespace pipetrain;

namespace {

struct Inner {
  std::int64_t number = 0;
  std::string text;

  bool operator==(const Inner&) const = default;
  static void wire_fields(auto& wire, auto& inner) { wire(inner.number, inner.text); }
};

struct Outer {
  enum class Kind : std::uint8_t { first, second };
  Kind kind = Kind::first;
  bool flag = false;
  Bytes bytes;
  Shape shape;
  std::vector<Inner> list;
  std::pair<int, std::string> pair;
  std::map<std::int64_t, Bytes> map;
  std::optional<Inner> optional;

  bool operator==(const Outer&) const = default;
  template <class Wire>
  static void wire_fields(Wire& wire, auto& outer) {
    wire.choice(outer.kind, Kind::second);
    wire(outer.flag, outer.bytes, outer.shape, outer.list, outer.pair, outer.map, outer.optional);
    if (Wire::reads && outer.pair.first < 0) WireReader::refuse("a negative number");
  }
};

Outer some_message() {
  return {Outer::Kind::second,    true,        Bytes(3, std::byte{7}),   {2, 3, 4},
          {{1, "one"}, {-2, ""}}, {5, "five"}, {{8, Bytes(2)}, {9, {}}}, Inner{10, "ten"}};
}

}  // namespace

TEST_CASE("a message is read with the fields that were written") {
  for (Outer message : {some_message(), Outer{}}) CHECK(read_message<Outer>(to_bytes(message)) == message);
}

TEST_CASE("a message that ends early or late is refused") {
  Bytes bytes = to_bytes(some_message());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_THROWS_AS(read_message<Outer>(std::span(bytes).first(size)), Error);
  bytes.push_back({});
  CHECK_THROWS_AS(read_message<Outer>(bytes), Error);
}

TEST_CASE("values that no message has are refused") {
  Bytes bytes = to_bytes(some_message());
  bytes.front() = std::byte{2};
  CHECK_THROWS_WITH(read_message<Outer>(bytes), Catch::Matchers::Contains("does not exist"));
  Outer message = some_message();
  message.pair.first = -1;
  CHECK_THROWS_WITH(read_message<Outer>(to_bytes(message)), Catch::Matchers::Contains("negative number"));
  message = some_message();
  message.shape = {std::int64_t{1} << 30, std::int64_t{1} << 30};
  CHECK_THROWS_WITH(read_message<Outer>(to_bytes(message)), Catch::Matchers::Contains("no memory holds"));
}

TEST_CASE("a list is not longer than its bytes, whatever it claims") {
  WireWriter out;
  out.number(std::uint32_t{0xffffffff});
  CHECK_THROWS_AS(read_message<std::vector<Inner>>(out.data()), Error);
  CHECK_THROWS_AS((read_message<std::map<std::int64_t, Bytes>>(out.data())), Error);
}
