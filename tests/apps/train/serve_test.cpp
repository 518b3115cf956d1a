// --serve: the report of a run, at an address of this host, while the run goes on.
#include <nlohmann/json.hpp>
#include <string>

#include "apps/live_run.hpp"
#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "http_get.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using test::http_get;

namespace {

const std::string served_run = "--device cpu --seq-len 8 --layers 2 --microbatches 2 --pp 2 --steps 100000 --serve 0 ";

// Where the page of a run is: "?token=..." is its query.
struct Served {
  int port = 0;
  std::string query;
};

Served served_by(const LiveRun& run) {
  const std::string begin = "the report is at http://127.0.0.1:";
  run.wait_until([&] { return run.err().find("step 2") != std::string::npos; });
  const std::string err = run.err();
  const std::size_t at = err.find(begin);
  INFO(err);
  REQUIRE(at != std::string::npos);
  const std::string rest = err.substr(at + begin.size(), err.find_first_of(",\n", at) - at - begin.size());
  return {std::stoi(rest), rest.substr(rest.find('?'))};
}

nlohmann::json data_at(const Served& served) {
  return nlohmann::json::parse(http_get(served.port, "/data" + served.query).body, nullptr, false);
}

}  // namespace

TEST_CASE("--serve shows a run as it goes on, to those who have its address, and ends with it") {
  LiveRun run(served_run);
  const Served served = served_by(run);
  CHECK(http_get(served.port, "/").status == 403);
  CHECK(http_get(served.port, "/?token=0").status == 403);
  const auto page = http_get(served.port, "/" + served.query);
  CHECK(page.status == 200);
  CHECK_THAT(page.body, Contains("<!doctype html>") && Contains("\"live\":true") && Contains("\"state\":\"running\""));
  const test::RawClient silent(served.port);  // never asks for anything
  const test::RawClient deaf(served.port);    // never reads its answer
  deaf.send("GET /" + served.query + " HTTP/1.1\r\n\r\n");
  const auto step = [&] {
    const auto data = data_at(served);
    return data.is_object() && data["newest"].is_object() ? data["newest"]["step"].get<int>() : 0;
  };
  const int first = step();
  run.wait_until([&] { return step() > first + 1; });
  CHECK(run.end_by(SIGINT) == 130);
  CHECK(!test::RawClient(served.port).connected());
}

TEST_CASE("--serve takes the token of --token-file and does not print it") {
  const TempFolder folder;
  const auto file = folder.write("token", "a secret of 20 bytes\n");
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  LiveRun run(served_run + "--token-file " + file.string());
  const Served served = served_by(run);
  CHECK_THAT(run.err(), Contains("?token=TOKEN, with the token of --token-file") && !Contains("secret"));
  CHECK(http_get(served.port, "/" + served.query).status == 403);
  CHECK(http_get(served.port, "/?token=a%20secret%20of%2020%20bytes").status == 200);
  run.end_by(SIGTERM);
}

TEST_CASE("--serve tells browsers how the run failed") {
  LiveRun run(served_run, "PIPETRAIN_FAULT=0:2000:throw");
  const Served served = served_by(run);
  nlohmann::json last;
  for (std::string number = "0"; number != "";) {  // as the page does
    const auto answer = http_get(served.port, "/data" + served.query + "&after=" + number);
    if (answer.status == 200) last = nlohmann::json::parse(answer.body);
    const std::string key = "Data-Number: ";
    const std::size_t at = answer.headers.find(key);
    number =
        at == std::string::npos ? "" : answer.headers.substr(at + key.size(), answer.headers.find('\r', at) - at - key.size());
  }
  CHECK(last["state"] == "failed");
  CHECK_THAT(last["state_text"].get<std::string>(), Contains("PIPETRAIN_FAULT"));
  CHECK(run.wait() == 1);
}

TEST_CASE("a port that --serve cannot have ends the run before its first step") {
  CHECK_THAT(refused("--serve 65536"), Contains("--serve 65536"));
  LiveRun first(served_run);
  const Served served = served_by(first);
  const Result second = run("--steps 2 --serve " + std::to_string(served.port));
  CHECK(second.status == 1);
  CHECK_THAT(second.err, Contains("port " + std::to_string(served.port)) && Contains("give another port"));
  first.end_by(SIGTERM);
}
