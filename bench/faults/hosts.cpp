#include "bench/faults/hosts.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "bench/faults/program_run.hpp"

namespace pipetrain::bench {

Hosts::Hosts(int count) : count_(count), prefix_(fmt::format("ptf{}", ::getpid() % 100000)) {
  const std::string bridge = prefix_ + "s";
  made_ = ::geteuid() == 0 && succeeds(fmt::format("ip netns add {}", bridge)) &&
          succeeds(fmt::format("ip -n {0} link add name sw0 type bridge && ip -n {0} link set sw0 up", bridge));
  for (int host = 0; made_ && host < count_; ++host) {
    made_ = succeeds(fmt::format(
        "ip netns add {0} && ip link add name eth0 netns {0} type veth peer name p{3} netns {1} && ip -n {1} link set p{3} "
        "master sw0 up && ip -n {0} addr add {2}/24 dev eth0 && ip -n {0} link set eth0 up && ip -n {0} link set lo up",
        name(host), bridge, address(host), host));
  }
}

Hosts::~Hosts() {
  for (int host = 0; host < count_; ++host) succeeds("ip netns del " + name(host));
  succeeds("ip netns del " + prefix_ + "s");
}

std::string Hosts::name(int host) const { return fmt::format("{}h{}", prefix_, host); }

std::string Hosts::address(int host) const { return fmt::format("10.78.0.{}", host + 1); }

void Hosts::link(int host, bool up) const {
  succeeds(fmt::format("ip -n {} link set eth0 {}", name(host), up ? "up" : "down"));
}

// The bucket holds 5 ms of the rate, but at least a few of the segments that the kernel hands to a device whole; the queue
// holds 50 ms.
bool Hosts::limit(int host, int megabits) const {
  const int burst = std::max(megabits * 1000 / 8 * 5, 1 << 18);
  return succeeds(
      fmt::format("tc -n {} qdisc replace dev eth0 root tbf rate {}mbit burst {} latency 50ms", name(host), megabits, burst));
}

double Hosts::sent(int host) const {
  double bytes = 0;
  std::FILE* const counter =
      ::popen(fmt::format("ip netns exec {} cat /sys/class/net/eth0/statistics/tx_bytes", name(host)).c_str(), "r");
  if (counter == nullptr) return std::nan("");
  const bool is_read = std::fscanf(counter, "%lf", &bytes) == 1;
  ::pclose(counter);
  return is_read ? bytes : std::nan("");
}

}  // namespace pipetrain::bench
