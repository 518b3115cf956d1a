#include "comm/ucx/ucx_tcp_admission.hpp"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/error.hpp"

namespace pipetrain {
namespace {

constexpr time_t open_seconds = 2;

constexpr std::uint16_t load_word = BPF_LD | BPF_W | BPF_ABS, jump_if_equal = BPF_JMP | BPF_JEQ | BPF_K, give = BPF_RET | BPF_K;
constexpr std::uint32_t whole_packet = 0xffffffff;

// Accepts packets with one of these source addresses, given as the kernel's numbers of an IPv4 header.
void append_v4_admission(std::vector<sock_filter>& program, const std::vector<std::uint32_t>& addresses) {
  program.push_back({load_word, 0, 0, static_cast<std::uint32_t>(SKF_NET_OFF) + 12});
  for (const std::uint32_t address : addresses) {
    program.push_back({jump_if_equal, 0, 1, address});
    program.push_back({give, 0, 0, whole_packet});
  }
}

// Does the same for one IPv6 address, of four numbers.
void append_v6_admission(std::vector<sock_filter>& program, const std::vector<std::uint32_t>& address) {
  for (std::size_t i = 0; i < address.size(); ++i) {
    const auto to_next_address = static_cast<std::uint8_t>(2 * (address.size() - i) - 1);
    program.push_back({load_word, 0, 0, static_cast<std::uint32_t>(SKF_NET_OFF) + 8 + static_cast<std::uint32_t>(4 * i)});
    program.push_back({jump_if_equal, 0, to_next_address, address[i]});
  }
  program.push_back({give, 0, 0, whole_packet});
}

std::vector<std::uint32_t> words_of(const std::string& address, int family) {
  std::vector<std::uint32_t> words(family == AF_INET6 ? 4 : 1);
  if (::inet_pton(family, address.c_str(), words.data()) != 1) return {};
  for (std::uint32_t& word : words) word = ntohl(word);
  return words;
}

std::vector<sock_filter> filter_program(int family, const std::set<std::string>& addresses) {
  std::vector<sock_filter> program;
  std::vector<std::uint32_t> v4;
  for (const std::string& address : addresses) {
    const auto words = words_of(address, family);
    if (words.size() == 4) append_v6_admission(program, words);
    if (words.size() == 1) v4.push_back(words.front());
  }
  if (!v4.empty()) append_v4_admission(program, v4);
  program.push_back({give, 0, 0, 0});
  return program;
}

bool attach(int socket, std::vector<sock_filter> program) {
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return program.size() <= BPF_MAXINSNS && ::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0;
}

int family_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 ? address.ss_family : AF_UNSPEC;
}

}  // namespace

std::set<int> listening_sockets_of_this_process() {
  std::set<int> sockets;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end; entry.increment(error)) {
    const int descriptor = std::atoi(entry->path().filename().c_str());
    int listens = 0;
    socklen_t size = sizeof listens;
    if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0) sockets.insert(descriptor);
  }
  return sockets;
}

bool names_port_of(const Bytes& worker_address, int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return false;
  const bool v6 = address.ss_family == AF_INET6;
  if (!v6 && address.ss_family != AF_INET) return false;
  const in_port_t port =
      v6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port : reinterpret_cast<const sockaddr_in&>(address).sin_port;
  const auto* bytes = reinterpret_cast<const std::byte*>(&port);
  return std::search(worker_address.begin(), worker_address.end(), bytes, bytes + sizeof port) != worker_address.end();
}

void admit_connections(int socket, const std::set<std::string>& addresses) {
  // The kernel counts the old filter too, until it is gone.
  (void)::setsockopt(socket, SOL_SOCKET, SO_DETACH_FILTER, nullptr, 0);
  if (attach(socket, filter_program(family_of(socket), addresses))) return;
  if (addresses.empty())
    throw Error(ErrorKind::unavailable,
                std::string("UCX's TCP sockets cannot be closed to strangers: ") + std::strerror(errno));
}

UcxTcpAdmission::UcxTcpAdmission(UcxWorker& worker)
    : worker_(worker), timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (timer_.get() < 0) throw Error(ErrorKind::unavailable, std::string("the system gives no timer: ") + std::strerror(errno));
}

UcxTcpAdmission::~UcxTcpAdmission() { worker_.forget(timer_.get()); }

void UcxTcpAdmission::open(const std::set<std::string>& addresses, std::function<bool()> may_close) {
  if (worker_.listening_sockets().empty()) return;
  may_close_ = std::move(may_close);
  for (const int socket : worker_.listening_sockets()) admit_connections(socket, addresses);
  worker_.forget(timer_.get());
  close_later();
}

void UcxTcpAdmission::close_later() {
  itimerspec time{};
  time.it_value.tv_sec = open_seconds;
  (void)::timerfd_settime(timer_.get(), 0, &time, nullptr);
  worker_.watch(timer_.get(), [this] {
    if (!may_close_()) return close_later();
    for (const int socket : worker_.listening_sockets()) admit_connections(socket, {});
  });
}

}  // namespace pipetrain
