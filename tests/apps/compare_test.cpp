// `pipetrain compare` as a shell sees it: its text, its JSON object and its exit status.
#include <nlohmann/json.hpp>
#include <string>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;

namespace {

std::string line(int step, const std::string& loss, const std::string& rate = "100") {
  return R"({"step":)" + std::to_string(step) + R"(,"loss":)" + loss +
         R"(,"grad_norm":0.5,"lr":0.0003,"tokens":64,"seconds":0.5,"elapsed":1,"tokens_per_second":)" + rate +
         R"(,"bubble":0.25,"memory_bytes":[1073741824],"skipped":false})" + "\n";
}

}  // namespace

TEST_CASE("two runs of the same work are equal, whatever their layout, and another rate is not") {
  const TempFolder folder;
  const std::string small = "--device cpu --seq-len 8 --microbatches 4 --steps 3 --metrics ";
  const auto file = [&](const char* name) { return (folder.path() / name).string(); };
  REQUIRE(run(small + file("a")).status == 0);
  REQUIRE(run(small + file("b") + " --pp 2 --schedule zb-h1").status == 0);
  REQUIRE(run(small + file("c") + " --lr 1e-3").status == 0);
  const Result same = run("compare " + file("a") + " " + file("b"));
  CHECK(same.status == 0);
  CHECK_THAT(same.out, Contains("over 3 common steps:") && Contains("none: equal to the bit"));
  const Result other = run("compare " + file("a") + " " + file("c"));
  CHECK(other.status == 1);
  CHECK_THAT(other.out, Contains("first differing step   1: lr"));
}

TEST_CASE("compare says within what runs are equal, and its object says the same") {
  const TempFolder folder;
  const std::string a = folder.write("a/m.jsonl", line(1, "4") + line(2, "2")).string(),
                    b = folder.write("b", line(1, "4") + line(2, "2.002", "150")).string();
  const Result table = run("compare " + folder.path().string() + "/a " + b);
  CHECK(table.status == 1);
  CHECK_THAT(table.out, Contains("x 1.500") && Contains("first differing step   2: loss 2 and 2.002") &&
                            Contains("differs by at most 0.000999 of its value, in step 2"));
  CHECK(run("compare " + a + " " + b + " --tolerance 1e-2").status == 0);
  CHECK(run("compare --tolerance=1e-4 " + a + " " + b).status == 1);
  const Result json = run("compare " + a + " --json " + b);
  CHECK(json.status == 1);
  const auto object = nlohmann::json::parse(json.out);
  CHECK(object["common_steps"] == 2);
  CHECK(object["equal"] == false);
  CHECK(object["first_difference"]["step"] == 2);
  CHECK(object["largest_difference"]["lr"]["step"].is_null());
  CHECK(object["speed_of_b"] == 1.5);
  CHECK(object["a"]["memory_bytes"] == 1073741824);
  CHECK(object["a"]["mfu"].is_null());
}

TEST_CASE("compare draws several runs over each other, and prints each in units of its size") {
  const TempFolder folder;
  const std::string a = folder.write("a", line(1, "4") + line(2, "2")).string(),
                    b = folder.write("b", line(1, "4") + line(2, "2")).string(),
                    c = folder.write("c", line(2, "3") + R"({"step":2,"eval_loss":3.5,"perplexity":33.1})" + "\n").string(),
                    page = (folder.path() / "runs.html").string();
  const Result compared = run("compare " + a + " " + b + " " + c + " --report " + page);
  CHECK(compared.status == 1);
  CHECK_THAT(compared.out, Contains("500 ms") && Contains("1 GiB") && Contains("first differing step   2: loss 2 and 3") &&
                               Contains("none: equal to the bit"));
  const std::string text = read_file(page), begin = "const data = ";
  const std::size_t at = text.find(begin) + begin.size();
  const auto data = nlohmann::json::parse(text.substr(at, text.find(";\n", at) - at));
  CHECK(data["runs"] == nlohmann::json({a, b, c}));
  CHECK(data["charts"][0]["title"] == "loss");
  REQUIRE(data["charts"][0]["lines"].size() == 3);
  CHECK(data["charts"][0]["lines"][2] == nlohmann::json({{"run", 2}, {"points", {{2, 3.0}}}}));
  CHECK(data["charts"].back()["title"] == "perplexity");
  CHECK(data["charts"].back()["lines"][0]["run"] == 2);
  CHECK(data["figures"][0] == nlohmann::json({"steps", "1-2", "1-2", "2-2"}));
  CHECK(run("compare " + a + " " + b + " --report " + page).status == 0);
  CHECK_THAT(refused("compare " + a + " " + b + " --report " + a), Contains("is read as a run; give the page its own path"));
  CHECK_THAT(refused("compare " + a + " " + b + " " + c + " --json --report " + page), Contains("--json: prints two runs"));
  std::string nine = "compare";
  for (int i = 0; i < 9; ++i) nine += " " + a;
  CHECK_THAT(refused(nine + " --report " + page), Contains("a page has colours for 8 runs, and 9 are given"));
}

TEST_CASE("compare refuses what it cannot compare") {
  const TempFolder folder;
  const std::string a = folder.write("a", line(1, "4")).string(), b = folder.write("b", line(5, "4")).string();
  CHECK_THAT(refused("compare"), Contains("takes two runs, and 0 are given"));
  CHECK_THAT(refused("compare " + a), Contains("takes two runs, and 1 is given"));
  CHECK_THAT(refused("compare " + a + " " + b + " " + b), Contains("3 are given"));
  CHECK_THAT(refused("compare " + a + " " + b), Contains("none of which is the same"));
  CHECK_THAT(refused("compare " + a + " /nowhere"), Contains("/nowhere: there is no such file"));
  CHECK_THAT(refused("compare " + a + " " + a + " --tolerance -1"), Contains("--tolerance"));
  CHECK_THAT(refused("compare " + a + " " + a + " --tolerant 1"), Contains("did you mean --tolerance?"));
  CHECK_THAT(run("compare --help").out, Contains("Exit status: 0 all of that is equal, 1 it is not, 2"));
}
