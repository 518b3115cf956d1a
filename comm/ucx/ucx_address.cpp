#include "comm/ucx/ucx_address.hpp"

#include <arpa/inet.h>

#include <cstring>

#include "comm/ucx/ucx_worker.hpp"
#include "core/error.hpp"

namespace pipetrain {

ucs_sock_addr_t SocketAddress::ucx() const {
  const bool v6 = storage.ss_family == AF_INET6;
  return {reinterpret_cast<const sockaddr*>(&storage), static_cast<socklen_t>(v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in))};
}

std::string own_address(const ControlPlane& control) {
  const std::string& address = control.info(control.process()).address;
  if (address.empty()) throw Error(ErrorKind::internal, "the control plane does not know this process's address");
  return address;
}

SocketAddress parse_address(const std::string& text) {
  SocketAddress address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
  } else if (inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
  } else {
    throw Error(ErrorKind::internal, "'" + text + "' is no numeric address of an interface");
  }
  return address;
}

std::string to_string(const SocketAddress& address) {
  const bool v6 = address.storage.ss_family == AF_INET6;
  const auto& v4_address = reinterpret_cast<const sockaddr_in&>(address.storage);
  const auto& v6_address = reinterpret_cast<const sockaddr_in6&>(address.storage);
  char text[INET6_ADDRSTRLEN] = {};
  if (v6) {
    inet_ntop(AF_INET6, &v6_address.sin6_addr, text, sizeof text);
  } else {
    inet_ntop(AF_INET, &v4_address.sin_addr, text, sizeof text);
  }
  const std::string port = std::to_string(ntohs(v6 ? v6_address.sin6_port : v4_address.sin_port));
  return (v6 ? "[" + std::string(text) + "]" : std::string(text)) + ":" + port;
}

Bytes listener_address(ucp_listener_h listener) {
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  check_ucx(ucp_listener_query(listener, &attributes), "tell where it listens");
  const auto* begin = reinterpret_cast<const std::byte*>(&attributes.sockaddr);
  return {begin, begin + sizeof attributes.sockaddr};
}

SocketAddress unpack_address(std::span<const std::byte> packed) {
  SocketAddress address;
  if (packed.size() != sizeof address.storage) WireReader::refuse("no address");
  std::memcpy(&address.storage, packed.data(), packed.size());
  if (address.storage.ss_family != AF_INET && address.storage.ss_family != AF_INET6) WireReader::refuse("no address");
  return address;
}

}  // namespace pipetrain
