#include "comm/served/page_server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <list>
#include <span>
#include <thread>
#include <utility>

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include "comm/control/asio.hpp"
#include "comm/control/token.hpp"
#include "comm/served/request_target.hpp"
#include "core/error.hpp"
#include "core/threads/signals_blocked.hpp"

namespace pipetrain {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr std::size_t most_request_bytes = 8192, most_connections = 64;
constexpr std::chrono::seconds longest_request{10}, longest_answer{20};  // a browser that does not read is left then
constexpr std::chrono::seconds longest_wait{20}, watched_for{30}, longest_end{1};
constexpr std::chrono::milliseconds pause_after_failure{100};  // for example when this process has no file descriptor left

std::string_view view_of(beast::string_view text) { return {text.data(), text.size()}; }

// Returns the token that a request shows, or "".
std::string shown_token(const http::request<http::empty_body>& request) {
  constexpr std::string_view bearer = "Bearer ";
  const std::string_view header = view_of(request[http::field::authorization]);
  if (header.starts_with(bearer)) return std::string(header.substr(bearer.size()));
  return query_value(view_of(request.target()), "token");
}

// A connection, which carries one request and its answer.
struct Session {
  Session(tcp::socket socket, std::shared_ptr<std::size_t> count)
      : stream(std::move(socket)), timer(stream.get_executor()), connections(std::move(count)) {
    parser.header_limit(most_request_bytes);
    ++*connections;
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() { --*connections; }

  beast::tcp_stream stream;
  beast::flat_buffer buffer{most_request_bytes};
  http::request_parser<http::empty_body> parser;
  asio::steady_timer timer;                  // ends a wait for data
  std::shared_ptr<std::size_t> connections;  // that are open
};
using SessionPointer = std::shared_ptr<Session>;

}  // namespace

// Everything but the atomic and post() is used on the I/O thread only.
class PageServer::Implementation {
 public:
  explicit Implementation(Settings settings)
      : settings_(std::move(settings)),
        acceptor_(io_),
        pause_(io_),
        end_(io_),
        data_(std::make_shared<const std::string>(std::move(settings_.data))) {
    listen();
    accept();
    const SignalsBlocked blocked;
    thread_ = std::thread([this] { serve(); });
  }
  ~Implementation() {
    asio::post(io_, [this] { close(); });
    thread_.join();
  }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  int port() const { return port_; }
  bool is_watched() const { return Clock::now().time_since_epoch().count() < watched_until_.load(); }
  void publish(std::string data) {
    asio::post(io_, [this, made = std::make_shared<const std::string>(std::move(data))] { renew(made); });
  }

 private:
  void listen();
  void serve();
  void accept();
  void accepted(const error_code& error, tcp::socket socket);
  void answer(const SessionPointer& session);
  void wait(const SessionPointer& session);
  void renew(const std::shared_ptr<const std::string>& data);
  void send_data(const SessionPointer& session) { send(session, http::status::ok, "application/json", *data_, true); }
  void send(const SessionPointer& session, http::status status, const char* type, std::string text, bool has_data);
  void sent(bool had_data, std::uint64_t number);
  void close();
  void end_if_done();

  Settings settings_;
  std::shared_ptr<std::size_t> connections_ = std::make_shared<std::size_t>(0);  // outlives the sessions that io_ holds
  asio::io_context io_;
  tcp::acceptor acceptor_;
  asio::steady_timer pause_, end_;
  std::list<SessionPointer> waiting_;
  std::shared_ptr<const std::string> data_;
  std::uint64_t number_ = 1, delivered_ = 0;  // of the data, and of those that a browser got last
  std::size_t sending_ = 0;
  bool closing_ = false;
  int port_ = 0;
  std::atomic<Clock::rep> watched_until_{0};
  std::thread thread_;
};

void PageServer::Implementation::listen() {
  const tcp::endpoint here(asio::ip::address_v4::loopback(), static_cast<unsigned short>(settings_.port));
  error_code error;
  acceptor_.open(here.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(here, error);
  if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
  if (error)
    throw Error(ErrorKind::unavailable,
                fmt::format("cannot serve the page at port {} of 127.0.0.1 ({}); give another port, or 0 "
                            "for any that is free",
                            settings_.port, error.message()));
  port_ = acceptor_.local_endpoint().port();
}

// An exception ends the connection whose handler throws it; the others go on.
void PageServer::Implementation::serve() {
  for (;;) {
    try {
      io_.run();
      return;
    } catch (const std::exception&) {
    }
  }
}

void PageServer::Implementation::accept() {
  acceptor_.async_accept([this](const error_code& error, tcp::socket socket) { accepted(error, std::move(socket)); });
}

void PageServer::Implementation::accepted(const error_code& error, tcp::socket socket) {
  if (!acceptor_.is_open()) return;
  if (error || *connections_ >= most_connections) {
    pause_.expires_after(pause_after_failure);
    pause_.async_wait([this](const error_code& ended) {
      if (!ended && acceptor_.is_open()) accept();
    });
    return;
  }
  const auto session = std::make_shared<Session>(std::move(socket), connections_);
  session->stream.expires_after(longest_request);
  http::async_read(session->stream, session->buffer, session->parser, [this, session](const error_code& failed, std::size_t) {
    if (!failed) answer(session);
  });
  accept();
}

void PageServer::Implementation::answer(const SessionPointer& session) {
  constexpr const char* plain = "text/plain; charset=utf-8";
  const auto& request = session->parser.get();
  const std::string token = shown_token(request), target(view_of(request.target()));
  if (!control::same_token(std::as_bytes(std::span(token)), settings_.token))
    return send(session, http::status::forbidden, plain, "The token is wrong; use the address that the run printed.\n", false);
  if (request.method() != http::verb::get)
    return send(session, http::status::method_not_allowed, plain, "This page can only be read.\n", false);
  watched_until_ = (Clock::now() + watched_for).time_since_epoch().count();
  const std::string_view path = path_of(target);
  if (path == "/")
    return send(session, http::status::ok, "text/html; charset=utf-8", settings_.begin + *data_ + settings_.end, true);
  if (path != "/data") return send(session, http::status::not_found, plain, "The page is at /.\n", false);
  if (query_value(target, "after") == std::to_string(number_)) return wait(session);
  send_data(session);
}

// Answers once there are new data, or tells that there are none.
void PageServer::Implementation::wait(const SessionPointer& session) {
  if (closing_) return send(session, http::status::no_content, "application/json", "", true);
  waiting_.push_back(session);
  session->stream.expires_never();
  session->timer.expires_after(longest_wait);
  session->timer.async_wait([this, session](const error_code& ended) {
    if (ended || waiting_.remove(session) == 0) return;
    send(session, http::status::no_content, "application/json", "", false);
  });
}

void PageServer::Implementation::renew(const std::shared_ptr<const std::string>& data) {
  data_ = data;
  ++number_;
  for (const SessionPointer& session : std::exchange(waiting_, {})) {
    session->timer.cancel();
    send_data(session);
  }
}

// Sends the answer and ends the connection. has_data: the browser has the newest data then.
void PageServer::Implementation::send(const SessionPointer& session, http::status status, const char* type, std::string text,
                                      bool has_data) {
  const auto response = std::make_shared<http::response<http::string_body>>(status, session->parser.get().version());
  response->set(http::field::content_type, type);
  response->set(http::field::cache_control, "no-store");
  response->set("Referrer-Policy", "no-referrer");  // the address has the token
  response->set("Data-Number", std::to_string(number_));
  response->keep_alive(false);
  response->body() = std::move(text);
  response->prepare_payload();
  session->stream.expires_after(longest_answer);
  ++sending_;
  http::async_write(session->stream, *response,
                    [this, session, response, has_data, number = number_](const error_code& error, std::size_t) {
                      error_code ignored;
                      session->stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
                      sent(has_data && !error, number);
                    });
}

void PageServer::Implementation::sent(bool had_data, std::uint64_t number) {
  --sending_;
  if (had_data) delivered_ = std::max(delivered_, number);
  if (closing_) end_if_done();
}

// The newest data, which tell how the run ended, are for whoever has looked at the page.
void PageServer::Implementation::close() {
  closing_ = true;
  for (const SessionPointer& session : std::exchange(waiting_, {})) {
    session->timer.cancel();
    send(session, http::status::no_content, "application/json", "", true);
  }
  end_.expires_after(longest_end);
  end_.async_wait([this](const error_code&) { io_.stop(); });
  end_if_done();
}

void PageServer::Implementation::end_if_done() {
  if (sending_ == 0 && (!is_watched() || delivered_ == number_)) io_.stop();
}

PageServer::PageServer(Settings settings) : implementation_(std::make_unique<Implementation>(std::move(settings))) {}
PageServer::~PageServer() = default;
int PageServer::port() const { return implementation_->port(); }
bool PageServer::is_watched() const { return implementation_->is_watched(); }
void PageServer::publish(std::string data) { implementation_->publish(std::move(data)); }

std::string page_address(int port, std::string_view token) {
  std::string address = fmt::format("http://127.0.0.1:{}/", port);
  return token.empty() ? address : address + "?token=" + percent_encoded(token);
}

}  // namespace pipetrain
