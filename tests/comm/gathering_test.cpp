// When the processes that are left of a membership may begin the next one.
#include "comm/gathering.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "catch.hpp"
#include "comm/control_plane.hpp"
#include "comm/process_handles.hpp"
#include "wait_until.hpp"

using namespace pipetrain;

namespace {

// The processes of a run, of which it knows only their numbers; all but this one are on other machines unless told.
class KnownProcesses : public ControlPlane {
 public:
  explicit KnownProcesses(int processes) : all_(static_cast<std::size_t>(processes)) {
    for (ProcessInfo& info : all_) info.machine = "another";
    all_.front() = {.pid = ::getpid(), .machine = "this"};
  }
  void place_here(int process, pid_t id) { all_[static_cast<std::size_t>(process)] = {.pid = id, .machine = "this"}; }

  int process() const override { return 0; }
  int processes() const override { return static_cast<int>(all_.size()); }
  const ProcessInfo& info(int process) const override { return all_.at(static_cast<std::size_t>(process)); }
  bool is_gone(int) const override { return false; }
  void on_message(Channel, OnMessage) override {}
  void on_lost(OnLost) override {}
  void send(int, Channel, Bytes) override {}
  std::vector<Bytes> exchange(const std::string&, Bytes) override { return {}; }
  void leave() override {}

 private:
  std::vector<ProcessInfo> all_;
};

// A child process that waits to be killed.
class WaitingChild {
 public:
  WaitingChild() : id_(::fork()) {
    while (id_ == 0) ::pause();
  }
  ~WaitingChild() {
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }
  WaitingChild(const WaitingChild&) = delete;
  WaitingChild& operator=(const WaitingChild&) = delete;
  pid_t id() const { return id_; }

 private:
  pid_t id_;
};

Gathering gathering_of(const ControlPlane& all, std::vector<int> lost, bool half_wins) {
  Gathering gathering;
  for (int process = 0; process < all.processes(); ++process) gathering.members.push_back(process);
  gathering.handles = std::make_shared<ProcessHandles>(all);
  gathering.lost = std::move(lost);
  gathering.half_wins = [half_wins] { return half_wins; };
  return gathering;
}

}  // namespace

TEST_CASE("more than half of a membership begin the next one", "[takeover]") {
  const Gathering gathering = gathering_of(KnownProcesses(4), {0}, false);
  CHECK(may_begin(gathering, {1, 2, 3}, false));
  CHECK_FALSE(may_begin(gathering, {1, 3}, true));  // the others may go on without these
  CHECK_FALSE(may_begin(gathering, {1}, true));
}

TEST_CASE("half of a membership begins the next one only where that half wins", "[takeover]") {
  const KnownProcesses all(4);
  CHECK(may_begin(gathering_of(all, {2, 3}, true), {0, 1}, false));
  CHECK_FALSE(may_begin(gathering_of(all, {0, 1}, false), {2, 3}, true));
}

TEST_CASE("a gathering waits for processes that are not known to be lost", "[takeover]") {
  const Gathering gathering = gathering_of(KnownProcesses(4), {0}, false);
  CHECK_FALSE(may_begin(gathering, {1, 2}, false));
  const Gathering five = gathering_of(KnownProcesses(5), {0}, false);
  CHECK_FALSE(may_begin(five, {1, 2, 3}, false));
  CHECK(may_begin(five, {1, 2, 3}, true));
}

TEST_CASE("a process of this machine that has ended counts in no half", "[takeover]") {
  KnownProcesses all(3);
  const WaitingChild first, second;
  all.place_here(1, first.id());
  all.place_here(2, second.id());
  const Gathering gathering = gathering_of(all, {1, 2}, false);
  ::kill(first.id(), SIGKILL);
  ::kill(second.id(), SIGKILL);
  CHECK(test::wait_until([&] { return may_begin(gathering, {0}, false); }));
}

TEST_CASE("a stopped process of this machine counts until it is ended", "[takeover]") {
  KnownProcesses all(2);
  const WaitingChild child;
  ::kill(child.id(), SIGSTOP);
  all.place_here(1, child.id());
  const Gathering gathering = gathering_of(all, {1}, false);
  CHECK_FALSE(may_begin(gathering, {0}, true));
  gathering.handles->end(1);
  CHECK(test::wait_until([&] { return may_begin(gathering, {0}, true); }));
  CHECK(gathering.handles->has_ended(1));
}

TEST_CASE("a handle knows nothing of a process on another machine", "[takeover]") {
  KnownProcesses all(2);
  const ProcessHandles handles(all);
  CHECK_FALSE(handles.has_ended(1));
  handles.end(1);
  CHECK_FALSE(handles.has_ended(1));
}
