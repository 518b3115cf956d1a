#include "core/text/nearest_name.hpp"

#include "catch.hpp"

using namespace pipetrain;

TEST_CASE("edits are inserts, deletes, replacements and swaps") {
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("steps", "steps") == 0);
  CHECK(edit_distance("stpes", "steps") == 1);
  CHECK(edit_distance("sed", "seed") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("the nearest name is offered when it is near") {
  const std::vector<std::string> names = {
      "pp", "tp", "microbatch", "microbatches", "precision", "seq-len", "sequence-parallel", "save", "save-keep"};
  CHECK(nearest_name("microbach", names) == "microbatch");
  CHECK(nearest_name("microbatchs", names) == "microbatches");
  CHECK(nearest_name("prec", names) == "precision");
  CHECK(nearest_name("seq_len", names) == "seq-len");
  CHECK(nearest_name("seq", names) == "seq-len");
  CHECK(nearest_name("SAVE", names) == "save");
  CHECK(nearest_name("micro", names) == "microbatch");
  CHECK_FALSE(nearest_name("xylophone", names));
  CHECK_FALSE(nearest_name(std::string(3'000'000, 'x'), names));
  CHECK_FALSE(nearest_name("pp", {}));
}
