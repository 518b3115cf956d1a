// The server of a page: its answers, and browsers that do not behave.
#include "comm/served/page_server.hpp"

#include <chrono>
#include <future>
#include <list>
#include <memory>
#include <string>

#include "catch.hpp"
#include "comm/served/request_target.hpp"
#include "core/error.hpp"
#include "http_get.hpp"
#include "wait_until.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using test::http_get;

namespace {

PageServer::Settings made_page() { return {0, "a secret/1", "<html>", "</html>", "{\"step\":1}"}; }

const std::string token = "token=a%20secret%2F1";

}  // namespace

TEST_CASE("a served page and its data are for those who know the token") {
  const PageServer server(made_page());
  CHECK(page_address(server.port(), "a secret/1") == "http://127.0.0.1:" + std::to_string(server.port()) + "/?" + token);
  CHECK(!server.is_watched());
  for (const char* wrong : {"/", "/?token=", "/?token=other", "/?token=a%20secret%2F12", "/data?token=a%20secret"}) {
    INFO(wrong);
    const auto refused = http_get(server.port(), wrong);
    CHECK(refused.status == 403);
    CHECK_THAT(refused.body, Contains("token is wrong") && !Contains("step"));
  }
  CHECK(!server.is_watched());
  const auto page = http_get(server.port(), "/?" + token);
  CHECK(page.status == 200);
  CHECK(page.body == "<html>{\"step\":1}</html>");
  CHECK_THAT(page.headers, Contains("text/html") && Contains("no-store"));
  CHECK(server.is_watched());
  const auto data = http_get(server.port(), "/data?after=0&" + token);
  CHECK(data.body == "{\"step\":1}");
  CHECK_THAT(data.headers, Contains("Data-Number: 1\r\n"));
  CHECK(http_get(server.port(), "/data", "Authorization: Bearer a secret/1\r\n").status == 200);
  CHECK(http_get(server.port(), "/data", "Authorization: Bearer other\r\n").status == 403);
  CHECK(http_get(server.port(), "/etc/passwd?" + token).status == 404);
}

TEST_CASE("a browser that has the newest data waits for the next") {
  PageServer server(made_page());
  auto waiting = std::async(std::launch::async, [&] { return http_get(server.port(), "/data?" + token + "&after=1"); });
  CHECK(waiting.wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
  server.publish("{\"step\":2}");
  const auto data = waiting.get();
  CHECK(data.body == "{\"step\":2}");
  CHECK_THAT(data.headers, Contains("Data-Number: 2\r\n"));
  CHECK(http_get(server.port(), "/data?" + token + "&after=1").body == "{\"step\":2}");
}

TEST_CASE("browsers that never read, never ask or talk nonsense hold nobody up") {
  auto settings = made_page();
  settings.data = std::string(20'000'000, 'x');
  auto server = std::make_unique<PageServer>(settings);
  std::list<test::RawClient> silent;
  for (int i = 0; i < 8; ++i) {
    silent.emplace_back(server->port()).send("GET /?" + token + " HTTP/1.1\r\n\r\n");  // and reads nothing
    silent.emplace_back(server->port());
  }
  test::RawClient nonsense(server->port());
  nonsense.send(std::string(100'000, 'n'));
  CHECK(test::answer_of(nonsense.rest()).status == 0);
  test::RawClient post(server->port());
  post.send("POST /?" + token + " HTTP/1.1\r\nContent-Length: 0\r\n\r\n");
  CHECK(test::answer_of(post.rest()).status == 405);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) server->publish("{\"step\":3}");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(1));
  CHECK(test::wait_until([&] { return http_get(server->port(), "/data?" + token).body == "{\"step\":3}"; }));
  server.reset();
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
}

TEST_CASE("a server ends when whoever looks at the page has the last data") {
  auto server = std::make_unique<PageServer>(made_page());
  const int port = server->port();
  CHECK(http_get(port, "/?" + token).status == 200);
  auto waiting = std::async(std::launch::async, [&] { return http_get(port, "/data?" + token + "&after=1"); });
  waiting.wait_for(std::chrono::milliseconds(100));
  server->publish("{\"end\":1}");
  server.reset();
  CHECK(waiting.get().body == "{\"end\":1}");
  CHECK(!test::RawClient(port).connected());
}

TEST_CASE("a port that is in use is refused") {
  const PageServer server(made_page());
  auto second = made_page();
  second.port = server.port();
  CHECK_THROWS_WITH(PageServer(second), Contains("port " + std::to_string(server.port())) && Contains("give another port"));
}

TEST_CASE("a request's target is taken apart") {
  CHECK(path_of("/data?a=1") == "/data");
  CHECK(query_value("/data?a=1&token=x%2fy%zz%4&b", "token") == "x/y%zz%4");
  CHECK(query_value("/data?mytoken=1", "token") == "");
  CHECK(query_value("/data", "token") == "");
  CHECK(percent_encoded("a+b/ =~") == "a%2Bb%2F%20%3D~");
  CHECK(percent_decoded(percent_encoded("\xc3\xa4%\n")) == "\xc3\xa4%\n");
}
