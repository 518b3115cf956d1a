#include "comm/measure_links.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "comm/edge_pair.hpp"
#include "core/wire.hpp"

namespace pipetrain {
namespace {

constexpr std::size_t probe_bytes = std::size_t{1} << 20, small_bytes = 1024;
constexpr int probe_messages = 16, fewest_messages = 8, most_messages = 1000, rounds = 200;
constexpr double seconds_a_measurement = 0.2;

// Large enough that the control messages take less time than the data.
std::size_t message_bytes(DeviceKind kind) { return std::size_t{kind == DeviceKind::cpu ? 4U : 64U} << 20; }

class Measurement {
 public:
  Measurement(ControlPlane& control, Transport& transport, Device& device)
      : control_(control), transport_(transport), device_(device) {}

  LinkMeasurement between(int one, int other) {
    LinkMeasurement link{.one = one, .other = other};
    link.latency = latency(one, other);
    link.rate = std::min(rate(one, other), rate(other, one));
    return link;
  }

 private:
  // Returns the value of process `from` in every process.
  double share(int from, double value) {
    WireWriter mine;
    mine.number(value);
    const auto all = control_.exchange("measured", std::move(mine).data());
    return WireReader(all[static_cast<std::size_t>(from)]).number<double>();
  }

  double rate(int from, int to) {
    EdgePair pair(control_, transport_, device_, from, to);
    const double probed = share(from, bytes_per_second(pair, probe_bytes, probe_messages));
    const std::size_t bytes = message_bytes(device_.id().kind);
    const double messages = probed * seconds_a_measurement / static_cast<double>(bytes);
    const int count = static_cast<int>(std::clamp<double>(messages, fewest_messages, most_messages));
    return share(from, bytes_per_second(pair, bytes, count));
  }

  double latency(int one, int other) {
    EdgePair pair(control_, transport_, device_, one, other);
    return share(one, thread_latency(pair, small_bytes, rounds));
  }

  ControlPlane& control_;
  Transport& transport_;
  Device& device_;
};

}  // namespace

std::vector<LinkMeasurement> measure_links(ControlPlane& control, Transport& transport, Device& device) {
  Measurement measurement(control, transport, device);
  std::vector<LinkMeasurement> links;
  for (int one = 0; one < control.processes(); ++one) {
    for (int other = one + 1; other < control.processes(); ++other) links.push_back(measurement.between(one, other));
  }
  return links;
}

}  // namespace pipetrain
