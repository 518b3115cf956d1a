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

constexpr std::size_t most_filtered = 400;  // times nine instructions of an IPv6 address: the kernel takes 4,096 in all
constexpr time_t open_seconds = 2;

constexpr std::uint16_t load_word = BPF_LD | BPF_W | BPF_ABS, jump_if_equal = BPF_JMP | BPF_JEQ | BPF_K, give = BPF_RET | BPF_K;
constexpr std::uint32_t whole_packet = 0xffffffff;

// Lets a packet through whose source address is these words, each of four bytes in network byte order.
void append_admission(std::vector<sock_filter>& program, const std::vector<std::uint32_t>& words, std::uint32_t offset) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto to_next_address = static_cast<std::uint8_t>(2 * (words.size() - i) - 1);
    program.push_back({load_word, 0, 0, static_cast<std::uint32_t>(SKF_NET_OFF) + offset + static_cast<std::uint32_t>(4 * i)});
    program.push_back({jump_if_equal, 0, to_next_address, ntohl(words[i])});
  }
  program.push_back({give, 0, 0, whole_packet});
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
  const int family = family_of(socket);
  const std::uint32_t source_offset = family == AF_INET6 ? 8 : 12;  // in the header of IP
  std::vector<sock_filter> program;
  for (const std::string& address : addresses) {
    std::vector<std::uint32_t> words(family == AF_INET6 ? 4 : 1);
    if (::inet_pton(family, address.c_str(), words.data()) == 1) append_admission(program, words, source_offset);
  }
  program.push_back({give, 0, 0, addresses.size() > most_filtered ? whole_packet : 0});
  if (addresses.size() > most_filtered) program.erase(program.begin(), program.end() - 1);
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0)
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
