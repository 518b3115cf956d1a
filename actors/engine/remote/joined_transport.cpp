#include "actors/engine/remote/joined_transport.hpp"

#include "actors/engine/remote/engine_channel.hpp"
#include "core/error.hpp"
#include "core/wire_fields.hpp"

namespace pipetrain {
namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

}  // namespace

std::shared_ptr<Transport> join_transport(const std::shared_ptr<ControlPlane>& control, const Mesh& mesh,
                                          const MakeTransport& make, const std::shared_ptr<EngineChannel>& channel) {
  const auto kept = std::make_shared<const Mesh>(mesh);  // lives as long as the transport, which reads it
  std::unique_ptr<Transport> made = make(*control, *kept);
  const std::shared_ptr<Transport> transport(made.release(), [kept, control](Transport* gone) { delete gone; });
  transport->on_lost([channel](int process, const std::string& why) { channel->lose(process, why); });
  channel->on_failure([weak = std::weak_ptr(transport)](const Failure& failure) {
    if (const auto still = weak.lock()) still->abort(exception_of(failure));
  });
  return transport;
}

void compare_values(const Values& values, const std::string& advice, EngineChannel& channel) {
  const auto all = channel.exchange("common values", to_bytes(values));
  const Values first = read_message<Values>(all.front());
  for (int process = 1; process < channel.processes(); ++process) {
    const Values other = read_message<Values>(all[static_cast<std::size_t>(process)]);
    for (std::size_t i = 0; i < first.size(); ++i) {
      if (i < other.size() && other[i] == first[i]) continue;
      const std::string place = to_string(channel.control().info(process));
      throw Error(ErrorKind::input, place + " has another " + first[i].first + " than process 0: " + advice, nullptr, true);
    }
  }
}

}  // namespace pipetrain
