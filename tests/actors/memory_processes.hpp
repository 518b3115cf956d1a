// "Processes" that are threads of the test: a control plane and a transport that pass everything in memory.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <vector>

#include "comm/control_plane.hpp"
#include "comm/transport.hpp"

namespace pipetrain::test {

class MemoryHub : public std::enable_shared_from_this<MemoryHub> {
 public:
  static std::shared_ptr<MemoryHub> make(int processes);
  ~MemoryHub();

  int processes() const { return static_cast<int>(members_.size()); }
  // One for each process.
  std::shared_ptr<ControlPlane> control(int process);
  std::unique_ptr<Transport> transport(ControlPlane& control);
  // Behaves as if its network were cut: nothing arrives from it or at it any more, and it loses process 0, or, if it is
  // process 0, the others lose it.
  void kill(int process, const std::string& why);
  // Delivers a message as if `from` had sent it.
  void forge(int from, int to, Channel channel, Bytes message);
  // The messages on the engine's channel so far.
  std::vector<Bytes> recorded() const;

 private:
  friend class MemoryControl;
  friend class MemoryTransport;
  struct Member;
  struct Meeting {
    std::map<int, Bytes> given;
    int taken = 0;
  };

  explicit MemoryHub(int processes);
  void tell_gone(int told, int gone, const std::string& why);
  void post(int process, std::function<void(Member&)> job);

  mutable std::mutex mutex_;
  std::shared_mutex copying_;  // shared while a copy between two processes runs
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Member>> members_;
  std::map<std::string, Meeting> meetings_;
  std::set<int> gone_;  // left or killed: nothing is exchanged with them
  std::vector<Bytes> recorded_;
  std::map<EdgeId, EdgeReceiver> receivers_;
  std::map<EdgeId, EdgeSender> senders_;
  std::map<std::uint32_t, std::vector<std::shared_ptr<Group>>> groups_;
};

}  // namespace pipetrain::test
