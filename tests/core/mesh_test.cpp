#include "core/mesh.hpp"

#include "catch.hpp"
#include "core/error.hpp"

namespace pipetrain::test {

TEST_CASE("ranks are numbered dp, pp, tp with tp fastest", "[mesh]") {
  const Mesh mesh({.dp = 2, .pp = 3, .tp = 2});
  CHECK(mesh.size() == 12);
  CHECK(mesh.rank({.dp = 0, .pp = 0, .tp = 1}) == 1);
  CHECK(mesh.rank({.dp = 0, .pp = 1, .tp = 0}) == 2);
  CHECK(mesh.rank({.dp = 1, .pp = 0, .tp = 0}) == 6);
  CHECK(mesh.at(11) == MeshCoordinate{.dp = 1, .pp = 2, .tp = 1});
  CHECK(to_string(mesh.at(11)) == "stage 2, tp rank 1, replica 1");
  CHECK(to_string(MeshCoordinate{.pp = 1, .part = 2}) == "stage 1, tp rank 0, part 2, replica 0");
}

TEST_CASE("coordinates and ranks are the inverse of each other on all axes", "[mesh]") {
  const Mesh mesh({.dp = 2, .pp = 3, .cp = 2, .ep = 4, .tp = 3, .part = 2});
  for (int rank = 0; rank < mesh.size(); ++rank) REQUIRE(mesh.rank(mesh.at(rank)) == rank);
  for (const Axis axis : mesh_axes) {
    const int index = mesh.size() - 1;
    CHECK(mesh.at(index)[axis] == mesh.shape()[axis] - 1);
  }
}

TEST_CASE("a mesh's groups part its ranks, each in order", "[mesh]") {
  const Mesh mesh({.dp = 2, .pp = 2, .tp = 2});
  using Groups = std::vector<std::vector<int>>;
  CHECK(mesh.groups({Axis::tp}) == Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  CHECK(mesh.groups({Axis::pp}) == Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
  CHECK(mesh.groups({Axis::dp}) == Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(mesh.groups({Axis::pp, Axis::tp}) == Groups{{0, 1, 2, 3}, {4, 5, 6, 7}});
  CHECK(mesh.groups({}).size() == 8);
  const Mesh uneven({.dp = 3, .pp = 2, .cp = 2, .tp = 2});
  for (const auto axes : {std::initializer_list<Axis>{Axis::dp}, {Axis::cp, Axis::tp}, {Axis::dp, Axis::cp}}) {
    const auto groups = uneven.groups(axes);
    for (std::size_t index = 0; index < groups.size(); ++index) {
      for (const int rank : groups[index]) {
        REQUIRE(uneven.group(rank, axes) == groups[index]);
        REQUIRE(uneven.group_index(rank, axes) == static_cast<int>(index));
      }
    }
  }
}

TEST_CASE("a stage's ranks are adjacent, those with the same weights in their group's order", "[mesh]") {
  const MeshShape shape{.dp = 2, .pp = 3, .cp = 2, .tp = 3};
  const Mesh mesh(shape);
  CHECK(stage_size(shape) == 6);
  CHECK(weight_copies(shape) == 4);
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const MeshCoordinate at = mesh.at(rank);
    CHECK(mesh.rank({.dp = at.dp, .pp = at.pp}) + stage_rank(at, shape) == rank);
    const auto copies = mesh.group(rank, {Axis::dp, Axis::cp});
    REQUIRE(copies.size() == 4);
    CHECK(copies[static_cast<std::size_t>(weight_copy(at, shape))] == rank);
  }
}

TEST_CASE("ranks are dealt to processes in order", "[mesh]") {
  const Mesh one({.pp = 3});
  CHECK(one.processes() == 1);
  CHECK(one.place(2) == RankLocation{0, 2});
  const Mesh mesh({.dp = 5}, deal_ranks(5, 2));
  CHECK(mesh.processes() == 2);
  CHECK(mesh.ranks_of(0) == std::vector<int>{0, 1, 2});
  CHECK(mesh.ranks_of(1) == std::vector<int>{3, 4});
  CHECK(mesh.place(4) == RankLocation{1, 1});
  CHECK(mesh.ranks_of(2).empty());
  CHECK_FALSE(mesh.spans_processes({0, 2}));
  CHECK(mesh.spans_processes({0, 2, 3}));
}

TEST_CASE("a mesh refuses impossible sizes and ranks", "[mesh]") {
  CHECK_THROWS_WITH(Mesh({.pp = 0}), Catch::Contains("pp is 0"));
  CHECK_THROWS_WITH(Mesh({.dp = 1 << 20, .pp = 1 << 20}), Catch::Contains("make them smaller"));
  CHECK_THROWS_WITH(Mesh({.pp = 2}, {{0, 0}}), Catch::Contains("1 places are given for 2 ranks"));
  CHECK_THROWS_WITH(Mesh({.pp = 2}, {{0, 0}, {-1, 0}}), Catch::Contains("rank 1"));
  CHECK_THROWS_WITH(deal_ranks(2, 3), Catch::Contains("2 ranks cannot be dealt to 3 processes"));
}

}  // namespace pipetrain::test
