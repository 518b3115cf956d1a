#include "comm/world.hpp"

#include <vector>

#include "catch.hpp"
#include "core/error.hpp"

namespace pipetrain::test {
namespace {

// Two replicas of two stages; each replica is in a process of its own.
Mesh two_processes() { return Mesh({.dp = 2, .pp = 2}, deal_ranks(4, 2)); }

}  // namespace

TEST_CASE("a process opens its own ranks' devices and no others", "[world]") {
  std::vector<int> opened;
  const World world(two_processes(), 1, [&](int rank) {
    opened.push_back(rank);
    return make_cpu_device(rank, 1);
  });
  CHECK(opened == std::vector<int>{2, 3});
  CHECK(world.ranks() == opened);
  CHECK(world.runs(3));
  CHECK_FALSE(world.runs(0));
  CHECK(world.device(3).id().index == 3);
  CHECK_THROWS_WITH(world.device(0), Catch::Contains("rank 0 has no device in process 1"));
}

TEST_CASE("a group of a process' ranks sums in the order they were named", "[world]") {
  World world(Mesh({.tp = 3}), 0, [](int rank) { return make_cpu_device(rank, 1); });
  CHECK(world.group({1}).empty());
  auto groups = world.group({0, 1, 2});
  REQUIRE(groups.size() == 3);
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<float> values = {1, 2, 4};
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(groups.at(rank)->rank() == rank);
    streams.push_back(world.device(rank).make_stream("rank"));
    groups.at(rank)->all_reduce(*streams.back(), {&values[static_cast<std::size_t>(rank)], {1}, DType::f32}, Reduction::sum);
  }
  for (auto& stream : streams) stream->synchronize();
  CHECK(values == std::vector<float>{7, 7, 7});
}

TEST_CASE("a group's members pass tensors on to the next one, the last to the first", "[world]") {
  World world(Mesh({.tp = 3}), 0, [](int rank) { return make_cpu_device(rank, 1); });
  auto groups = world.group({0, 1, 2});
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<float> values = {1, 2, 4}, come(3), further(3);
  for (int rank = 0; rank < 3; ++rank) {
    const auto one = [rank](std::vector<float>& of) { return Tensor{&of[static_cast<std::size_t>(rank)], {1}, DType::f32}; };
    streams.push_back(world.device(rank).make_stream("rank"));
    groups.at(rank)->shift(*streams.back(), one(values), one(come));
    groups.at(rank)->shift(*streams.back(), one(come), one(further));
  }
  for (auto& stream : streams) stream->synchronize();
  CHECK(come == std::vector<float>{4, 1, 2});
  CHECK(further == std::vector<float>{2, 4, 1});
}

TEST_CASE("a group's members exchange rows whose numbers only they know", "[world]") {
  World world(Mesh({.ep = 3}), 0, [](int rank) { return make_cpu_device(rank, 1); });
  auto groups = world.group({0, 1, 2});
  // Member r sends r + s rows of 10 r + s to member s; the rows of its second tensor are one larger, and lie backwards.
  struct Member {
    std::vector<float> first, second = {}, got = std::vector<float>(9, -1), more = std::vector<float>(9, -1);
    std::vector<std::int32_t> offsets{0}, order = {}, received = std::vector<std::int32_t>(4, -1);
    std::unique_ptr<Stream> stream;
  };
  std::vector<Member> members(3);
  for (int rank = 0; rank < 3; ++rank) {
    Member& own = members[static_cast<std::size_t>(rank)];
    for (int to = 0; to < 3; ++to) {
      own.first.insert(own.first.end(), static_cast<std::size_t>(rank + to), static_cast<float>(10 * rank + to));
      own.offsets.push_back(static_cast<std::int32_t>(own.first.size()));
    }
    for (const float value : own.first) own.second.insert(own.second.begin(), value + 1);
    for (std::size_t row = own.first.size(); row-- > 0;) own.order.push_back(static_cast<std::int32_t>(row));
    own.stream = world.device(rank).make_stream("rank");
    const auto rows = [](std::vector<float>& of) { return Tensor{of.data(), {static_cast<std::int64_t>(of.size()), 1}}; };
    const Tensor order{own.order.data(), {std::ssize(own.order)}, DType::i32};
    groups.at(rank)->all_to_all(*own.stream,
                                {.rows = {{rows(own.first), rows(own.got)}, {rows(own.second), rows(own.more), order}},
                                 .offsets = {own.offsets.data(), {4}, DType::i32},
                                 .received = {own.received.data(), {4}, DType::i32}});
  }
  for (const Member& member : members) member.stream->synchronize();
  CHECK(members[0].received == std::vector<std::int32_t>{0, 0, 1, 3});
  CHECK(members[0].got == std::vector<float>{10, 20, 20, -1, -1, -1, -1, -1, -1});
  CHECK(members[1].received == std::vector<std::int32_t>{0, 1, 3, 6});
  CHECK(members[1].got == std::vector<float>{1, 11, 11, 21, 21, 21, -1, -1, -1});
  CHECK(members[2].got == std::vector<float>{2, 2, 12, 12, 12, 22, 22, 22, 22});
  CHECK(members[2].more == std::vector<float>{3, 3, 13, 13, 13, 23, 23, 23, 23});
}

TEST_CASE("without a transport ranks of different processes are refused by name", "[world]") {
  World world(two_processes(), 0, [](int rank) { return make_cpu_device(rank, 1); });
  CHECK(world.link(0, 1) == LinkKind::same_memory);
  CHECK(world.group({2, 3}).empty());  // another process makes it
  CHECK_THROWS_WITH(world.link(1, 2), Catch::Contains("rank 1 runs in process 0 and rank 2 in process 1"));
  CHECK_THROWS_WITH(world.group({0, 2}), Catch::Contains("rank 2 in process 1"));
}

TEST_CASE("a spare process has no ranks and is in no group", "[world]") {
  World world(two_processes(), 2, [](int rank) { return make_cpu_device(rank, 1); });
  CHECK(world.ranks().empty());
  CHECK(world.group({0, 2}).empty());
}

}  // namespace pipetrain::test
