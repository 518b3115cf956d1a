// Follows docs/multi-node.md as it is written: hosts are network namespaces.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "paths.hpp"
#include "skip.hpp"

using namespace pipetrain;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;

namespace {

const fs::path page = fs::path(test_data()).parent_path() / "docs" / "multi-node.md";

// Returns the lines of the first block of commands under this heading. The line that opens it may have a mark.
std::string block_under(const std::string& heading) {
  const std::string text = read_file(page);
  const std::size_t begin = text.find('\n', text.find("```", text.find(heading))) + 1;
  return text.substr(begin, text.find("```", begin) - begin);
}

bool can_make_namespaces() {
  if (::geteuid() != 0 || std::system("ip netns add pipetrain-try > /dev/null 2>&1") != 0) return false;
  static_cast<void>(std::system("ip netns del pipetrain-try"));
  return !fs::exists("/run/netns/a") && !fs::exists("/run/netns/b");
}

// Runs the page's lines with this program as `pipetrain`; `wire` is applied to the link once it exists.
Result follow_page(const std::string& wire) {
  std::string script = block_under("## Try it without hosts");
  const std::string first_run = "export PIPETRAIN_TOKEN";
  REQUIRE(script.find(first_run) != std::string::npos);
  script.insert(script.find(first_run), wire);
  const TempFolder folder;
  const fs::path file = folder.path() / "page.sh";
  std::ofstream(file) << script;
  const std::string path = fs::path(program_path()).parent_path().string();
  const Result result = run_program("/usr/bin/timeout", "90 sh '" + file.string() + "'", "PATH='" + path + "':$PATH");
  static_cast<void>(std::system("ip netns del a 2> /dev/null; ip netns del b 2> /dev/null"));
  return result;
}

// Returns "20 steps, loss 5.5 -> 4.9".
std::string alone() { return run("--pp 2 --device cpu --steps 20").out; }

}  // namespace

TEST_CASE("two hosts train as docs/multi-node.md says", "[launch][slow][alone]") {
  if (!can_make_namespaces()) return test::skip("needs root, ip netns, and no namespaces called a and b");
  const std::string expected = alone();
  const Result result = follow_page("");
  INFO(result.err);
  CHECK(result.out == expected);
}

TEST_CASE("hosts whose link delays and loses packets learn the same", "[launch][slow][alone]") {
  if (!can_make_namespaces()) return test::skip("needs root, ip netns, and no namespaces called a and b");
  const std::string wire = "tc -n a qdisc add dev wire-a root netem delay 2ms loss 1%";
  REQUIRE_THAT(read_file(page), Contains(wire));
  const std::string expected = alone();
  const Result result = follow_page(wire + " || exit 77\n");
  INFO(result.err);
  if (result.status == 77) return test::skip("the kernel has no netem");
  CHECK(result.out == expected);
}
