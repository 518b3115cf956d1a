// Which process runs which rank after others have been lost, and from which copies the ranks continue.
#include "actors/training/copies/agreement.hpp"

#include <random>

#include "actors/training/copies/buddy_order.hpp"
#include "catch.hpp"
#include "core/error.hpp"

using namespace pipetrain;

namespace {

const Mesh two_by_two({.dp = 2, .pp = 2});  // ranks 0 and 2 have equal states, and 1 and 3

Holdings held(std::vector<int> runs, std::map<int, std::vector<std::int64_t>> copies) {
  Holdings holdings{std::move(runs), std::move(copies), {}};
  for (const auto& [rank, steps] : holdings.copies)
    for (const std::int64_t step : steps) holdings.records[step] = Bytes(static_cast<std::size_t>(step));
  return holdings;
}

}  // namespace

TEST_CASE("a lost rank goes to a process without an equal state, with the copy of its replica", "[takeover]") {
  const auto agreement =
      agree({held({0}, {{0, {4, 3}}}), held({1}, {{1, {4, 3}}}), held({2}, {{2, {4, 3}}})}, two_by_two, false);
  REQUIRE(agreement);
  CHECK(agreement->step == 4);
  CHECK(agreement->process_of == std::vector<int>{0, 1, 2, 0});
  CHECK(agreement->sources == std::vector<CopySource>{{0, 0}, {1, 1}, {2, 2}, {1, 1}});
  CHECK(agreement->lost == std::vector<int>{3});
}

TEST_CASE("all ranks go back to the newest step after which every state is held", "[takeover]") {
  const auto agreement =
      agree({held({0}, {{0, {5, 4}}}), held({1}, {{1, {4, 3}}}), held({2}, {{2, {5, 4}}})}, two_by_two, false);
  REQUIRE(agreement);
  CHECK(agreement->step == 4);
  CHECK(agreement->record.size() == 4);  // of that step
}

TEST_CASE("all ranks go back to a step that somebody has recorded, where its states came without their record", "[takeover]") {
  const Mesh replicas({.dp = 2});
  Holdings left = held({1}, {{0, {5, 4}}, {1, {4, 3}}});
  left.records.erase(5);
  const auto agreement = agree({left}, replicas, false);
  REQUIRE(agreement);
  CHECK(agreement->step == 4);
  CHECK(agreement->record.size() == 4);
  left.records.clear();
  CHECK(agree({left}, replicas, false)->step == 5);
}

TEST_CASE("the ranks of a stage stay in one process", "[takeover]") {
  const Mesh mesh({.dp = 2, .tp = 2});
  const auto agreement = agree({held({0}, {{0, {1}}}), held({1}, {{1, {1}}})}, mesh, false);
  REQUIRE(agreement);
  CHECK(agreement->process_of[2] == agreement->process_of[3]);
}

TEST_CASE("processes that have not begun a step continue from the start", "[takeover]") {
  const auto agreement = agree({held({0}, {}), held({1}, {}), held({2}, {})}, two_by_two, true);
  REQUIRE(agreement);
  CHECK(agreement->from_start);
  CHECK(agreement->lost == std::vector<int>{3});
}

TEST_CASE("processes that ran no rank do not take a run that may have done steps back to its start", "[takeover]") {
  int missing = -1;
  CHECK_FALSE(agree({held({}, {})}, two_by_two, true, {}, &missing));
  CHECK(missing == 0);
  CHECK_FALSE(agree({held({}, {}), held({}, {})}, two_by_two, true));
  const auto agreement = agree({held({2}, {}), held({}, {})}, two_by_two, true);
  REQUIRE(agreement);
  CHECK(agreement->from_start);
}

TEST_CASE("copies are passed on from host to host", "[takeover]") {
  const Mesh mesh({.pp = 4}, {{0, 0}, {1, 0}, {3, 0}, {4, 0}});  // process 2 is spare
  CHECK(buddy_order(mesh) == std::vector<int>{0, 1, 3, 4});
  CHECK(buddy_order(mesh, {"a", "a", "a", "b", "b"}) == std::vector<int>{0, 3, 1, 4});
  CHECK(buddy_order(mesh, {"a", "a", "b", "b", "b"}) == std::vector<int>{0, 3, 1, 4});
}

TEST_CASE("a state that nobody has is named", "[takeover]") {
  int missing = -1;
  CHECK_FALSE(agree({held({0}, {{0, {4}}}), held({2}, {{2, {4}}})}, two_by_two, false, {}, &missing));
  CHECK(missing == 1);
  CHECK_FALSE(agree({held({0, 1}, {{0, {4}}, {1, {4}}}), held({2}, {{2, {4}}})}, two_by_two, true, {}, &missing));
  CHECK(missing == 3);
}

TEST_CASE("damaged holdings are read as others or refused", "[takeover]") {
  const Bytes bytes = to_bytes(held({0, 2}, {{0, {7, 6}}, {2, {7}}}));
  std::mt19937 random(1);
  int refused = 0;
  for (int damage = 0; damage < 10000; ++damage) {
    Bytes damaged = bytes;
    for (unsigned changes = 1 + random() % 4; changes > 0; --changes)
      damaged[random() % damaged.size()] = static_cast<std::byte>(random());
    damaged.resize(damaged.size() - random() % 8);
    try {
      for (const int rank : read_holdings(damaged, 4).runs) CHECK((rank >= 0 && rank < 4));
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::peer_lost);
      ++refused;
    }
  }
  CHECK(refused > 5000);
}

TEST_CASE("holdings cross processes, and malformed ones are refused", "[takeover]") {
  const Holdings holdings{{0, 2}, {{0, {7, 6}}, {2, {7}}}, {{7, Bytes(5)}, {6, {}}}};
  const Bytes bytes = to_bytes(holdings);
  const Holdings read = read_holdings(bytes, 4);
  CHECK(read.runs == holdings.runs);
  CHECK(read.copies == holdings.copies);
  CHECK(read.records == holdings.records);
  CHECK_THROWS_AS(read_holdings(bytes, 2), Error);  // there is no rank 2
  for (std::size_t length = 0; length < bytes.size(); ++length)
    CHECK_THROWS_AS(read_holdings(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)), 4), Error);
}

TEST_CASE("processes without ranks take half of the ranks of others but spare ones take none", "[agreement]") {
  const std::map<int, std::vector<std::int64_t>> all{{0, {4}}, {1, {4}}, {2, {4}}, {3, {4}}};
  const Mesh mesh({.pp = 4});
  const auto alone = agree({held({0, 1, 2, 3}, all), held({}, {})}, mesh, false);
  REQUIRE(alone);
  CHECK(alone->process_of == std::vector<int>{0, 0, 1, 1});
  CHECK(alone->moved == std::vector<int>{3, 2});
  CHECK(alone->sources[3] == CopySource{0, 3});
  const auto two = agree({held({0, 1, 2, 3}, all), held({}, {}), held({}, {})}, mesh, false, {.spares = 1});
  REQUIRE(two);
  CHECK(two->process_of == std::vector<int>{0, 0, 1, 1});
  const auto three = agree({held({0, 1, 2, 3}, all), held({}, {}), held({}, {})}, mesh, false);
  REQUIRE(three);
  CHECK(three->process_of == std::vector<int>{0, 2, 1, 1});
}

TEST_CASE("a stage whose ranks begin steps together moves as a whole", "[agreement]") {
  const std::map<int, std::vector<std::int64_t>> all{{0, {4}}, {1, {4}}, {2, {4}}, {3, {4}}};
  const Mesh two_stages({.pp = 2, .tp = 2}), one_stage({.tp = 2});
  const auto shared = agree({held({0, 1, 2, 3}, all), held({}, {}), held({}, {})}, two_stages, false, {.whole_stages = true});
  REQUIRE(shared);
  CHECK(shared->process_of == std::vector<int>{0, 0, 1, 1});
  const auto alone = agree({held({0, 1}, {{0, {4}}, {1, {4}}}), held({}, {})}, one_stage, false, {.whole_stages = true});
  REQUIRE(alone);
  CHECK(alone->process_of == std::vector<int>{0, 0});
}
