#include "comm/measure_links.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "comm/edge_pair.hpp"
#include "core/wire.hpp"

namespace pipetrain {
namespace {

constexpr std::size_t probe_bytes = std::size_t{1} << 20, message_bytes = std::size_t{4} << 20, small_bytes = 1024;
constexpr int probe_messages = 16, fewest_messages = 8, most_messages = 1000, rounds = 200;
constexpr double seconds_a_measurement = 0.2;

// What process `from` has, in every process.
double share(ControlPlane& control, int from, double value) {
  WireWriter mine;
  mine.number(value);
  const auto all = control.exchange("measured", std::move(mine).data());
  return WireReader(all[static_cast<std::size_t>(from)]).number<double>();
}

double rate(ControlPlane& control, Transport& transport, int from, int to) {
  EdgePair pair(control, transport, from, to);
  const double probed = share(control, from, bytes_per_second(pair, probe_bytes, probe_messages));
  const double messages = probed * seconds_a_measurement / static_cast<double>(message_bytes);
  const int count = static_cast<int>(std::clamp<double>(messages, fewest_messages, most_messages));
  return share(control, from, bytes_per_second(pair, message_bytes, count));
}

double latency(ControlPlane& control, Transport& transport, int one, int other) {
  EdgePair pair(control, transport, one, other);
  return share(control, one, thread_latency(pair, small_bytes, rounds));
}

}  // namespace

std::vector<LinkMeasurement> measure_links(ControlPlane& control, Transport& transport) {
  std::vector<LinkMeasurement> links;
  for (int one = 0; one < control.processes(); ++one) {
    for (int other = one + 1; other < control.processes(); ++other) {
      LinkMeasurement link{.one = one, .other = other};
      link.latency = latency(control, transport, one, other);
      link.rate = std::min(rate(control, transport, one, other), rate(control, transport, other, one));
      links.push_back(link);
    }
  }
  return links;
}

}  // namespace pipetrain
