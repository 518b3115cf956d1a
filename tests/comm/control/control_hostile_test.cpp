// Programs that do not belong to the run, and faulty ones that do.
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include "catch.hpp"
#include "comm/control/control_fixture.hpp"
#include "comm/control/raw_peer.hpp"
#include "comm/control/standby_socket.hpp"
#include "comm/control/token.hpp"
#include "comm/process_handles.hpp"

namespace pipetrain::test {
namespace {

using Catch::Contains;
using control::Frame;
using control::FrameKind;

#ifdef __SANITIZE_ADDRESS__
// It keeps 256 MiB of freed memory; it reports leaks itself.
constexpr std::size_t most_growth = std::size_t{32 + 256} << 20;
#else
constexpr std::size_t most_growth = std::size_t{32} << 20;
#endif

// Returns the bytes of memory of this process.
std::size_t resident_bytes() {
  std::size_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// A run of two processes that exchange messages all the time; counts those that arrive.
class BusyRun {
 public:
  BusyRun() : port_(free_port()), planes_(2) {
    in_threads(2, [&](int process) {
      planes_[process] = control::join_processes(rendezvous_of(process, 2, port_), quick_settings());
    });
    for (const int process : {0, 1}) {
      planes_[process]->on_lost([this](int, const std::string& why) { losses_.add(why); });
      planes_[process]->on_message(Channel::engine, [this, process](int, std::span<const std::byte> message) {
        ++echoes_;
        planes_[process]->send(1 - process, Channel::engine, Bytes(message.begin(), message.end()));
      });
    }
    planes_[0]->send(1, Channel::engine, bytes_of("ball"));
  }
  ~BusyRun() {
    for (const auto& plane : planes_) plane->on_message(Channel::engine, nullptr);
    leave_all(planes_);
  }
  std::uint16_t port() const { return port_; }

  void check_unaffected() {
    const int before = echoes_;
    std::atomic<int> parts = 0;
    in_threads(2, [&](int process) { parts += static_cast<int>(planes_[process]->exchange("still here", {}).size()); });
    CHECK(parts == 4);
    while (echoes_ == before) std::this_thread::yield();  // hangs if the run does
    CHECK(losses_.all().empty());
  }

 private:
  std::uint16_t port_;
  Planes planes_;
  Notes losses_;
  std::atomic<int> echoes_ = 0;
};

// Makes frames that are nearly right, and random bytes.
class Malformed {
 public:
  explicit Malformed(unsigned seed) : random_(seed) {}

  int below(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }

  Bytes noise(int most) {
    Bytes bytes(static_cast<std::size_t>(below(most)));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(below(256));
    return bytes;
  }

  // Returns the frame with up to three bytes changed, cut short, or made longer.
  Bytes mutated(const Frame& frame) {
    Bytes bytes = bytes_of(frame);
    for (int changes = below(4); changes > 0; --changes)
      bytes[static_cast<std::size_t>(below(static_cast<int>(bytes.size())))] = static_cast<std::byte>(below(256));
    if (below(4) == 0) bytes.resize(static_cast<std::size_t>(below(static_cast<int>(bytes.size()) + 1)));
    if (below(4) == 0) {
      const Bytes more = noise(64);
      bytes.insert(bytes.end(), more.begin(), more.end());
    }
    return bytes;
  }

  Frame any() {
    Frame frame;
    frame.kind = static_cast<FrameKind>(below(static_cast<int>(FrameKind::left) + 1));
    frame.channel = static_cast<Channel>(below(3));
    frame.from = static_cast<std::uint16_t>(below(4));
    frame.to = static_cast<std::uint16_t>(below(4));
    switch (below(5)) {
      case 0:
        frame.payload = to_bytes(control::hello_of(rendezvous_of(below(3), 2, 1)));
        break;
      case 1:
        frame.payload = to_bytes(control::Refusal{ErrorKind::input, {"seed", "1"}, "so"});
        break;
      case 2:
        frame.payload = to_bytes(control::Loss{below(4), "so"});
        break;
      case 3:
        frame.payload = bytes_of("a token");
        break;
      default:
        frame.payload = noise(200);
    }
    return frame;
  }

  // Returns the messages of a stranger that may have the token.
  Bytes conversation() {
    if (below(4) == 0) return noise(400);
    Bytes bytes;
    if (below(2) == 0) bytes = bytes_of(Frame{.kind = FrameKind::token, .payload = bytes_of("a token")});
    for (int frames = 1 + below(3); frames > 0; --frames) {
      const Bytes next = mutated(any());
      bytes.insert(bytes.end(), next.begin(), next.end());
    }
    return bytes;
  }

 private:
  std::mt19937 random_;
};

}  // namespace

TEST_CASE("10,000 random and malformed messages neither end a run, nor disturb it, nor make it grow", "[control][hostile]") {
  BusyRun run;
  Malformed malformed(20261122);
  const auto talk = [&](int conversations) {
    for (int i = 0; i < conversations; ++i) {
      RawPeer peer(run.port());
      peer.send(malformed.conversation());
    }
  };
  talk(500);
  const std::size_t before = resident_bytes();
  talk(9500);
  run.check_unaffected();
  CHECK(resident_bytes() < before + most_growth);
}

TEST_CASE("10,000 malformed and stale messages to a gathering admit nobody, and its members still begin",
          "[control][hostile][takeover]") {
  Planes before = join_all(3, quick_settings());
  const auto handles = std::make_shared<ProcessHandles>(*before[0]);
  leave_all(before);
  const auto standby = std::make_shared<StandbySocket>("127.0.0.1");
  const auto gathering_of = [&](int process) {  // process 1 was left out of the membership that ended
    Rendezvous rendezvous = rendezvous_of(process, 3, standby->port());
    rendezvous.timeout = std::chrono::seconds(60);
    Gathering& gathering = rendezvous.gathering.emplace();
    gathering.members = {0, 2};
    gathering.handles = handles;
    gathering.standby = standby;
    gathering.half_wins = [] { return false; };
    gathering.patience = std::chrono::seconds(60);
    return rendezvous;
  };
  Planes planes(2);
  std::jthread leader([&] { planes[0] = control::join_processes(gathering_of(0), quick_settings()); });
  Malformed malformed(20261126);
  for (int i = 0; i < 10000; ++i) RawPeer(standby->port()).send(malformed.conversation());
  RawPeer stale(standby->port());
  stale.greet(gathering_of(1));
  CHECK_THAT(stale.refusal(), Contains("the others went on without this process"));
  planes[1] = control::join_processes(gathering_of(2), quick_settings());
  leader.join();
  in_threads(2, [&](int process) {
    CHECK(planes[static_cast<std::size_t>(process)]->process() == process);
    CHECK(planes[static_cast<std::size_t>(process)]->exchange("still here", {}).size() == 2);
  });
  leave_all(planes);
}

TEST_CASE("100 connections that never show the token neither keep others out nor stay", "[control][hostile]") {
  const std::uint16_t port = free_port();
  std::unique_ptr<ControlPlane> first, second;
  {
    std::jthread waiting([&] { first = control::join_processes(rendezvous_of(0, 2, port), quick_settings()); });
    std::vector<std::unique_ptr<RawPeer>> strangers;
    while (strangers.size() < 100) strangers.push_back(connect_when_ready(port));
    second = control::join_processes(rendezvous_of(1, 2, port), quick_settings());
    // Each is closed in the end, without an answer.
    for (const auto& stranger : strangers) CHECK_FALSE(stranger->receive());
  }
  in_threads(2, [&](int process) { (process == 0 ? *first : *second).leave(); });
}

TEST_CASE("a claimed length above the limit is refused before anything is allocated for it", "[control]") {
  BusyRun run;
  const auto claim = [](RawPeer& peer, std::uint32_t length) {
    Bytes header = bytes_of(Frame{.kind = FrameKind::hello});
    std::memcpy(header.data() + 12, &length, sizeof length);
    peer.send(header);
  };
  RawPeer stranger(run.port());
  claim(stranger, 0xffff'ffff);
  CHECK_FALSE(stranger.receive());
  RawPeer slow(run.port());  // within the limit of messages, but beyond that of strangers
  claim(slow, 5000);
  CHECK_FALSE(slow.receive());
  RawPeer friendly(run.port());
  friendly.send({.kind = FrameKind::token, .payload = bytes_of("a token")});
  claim(friendly, control::most_hello_bytes + 1);
  CHECK_FALSE(friendly.receive());
  run.check_unaffected();
}

TEST_CASE("a process of the run that sends what it must not is lost, with the reason", "[control]") {
  const std::vector<std::pair<Bytes, std::string>> cases = {
      {bytes_of("GET / HTTP/1.1\r\n\r\n"), "it sent bytes that are no message of pipetrain"},
      {bytes_of(Frame{.kind = FrameKind::message, .from = 2, .to = 0}), "it sent a message that it must not send"},
      {bytes_of(Frame{.kind = FrameKind::message, .from = 1, .to = 9}), "it sent a message that it must not send"},
      {bytes_of(Frame{.kind = FrameKind::lost, .from = 1, .payload = to_bytes(control::Loss{2, "a lie"})}),
       "it sent a message that it must not send"},
      {bytes_of(Frame{.kind = FrameKind::exchange, .from = 1, .payload = bytes_of("xy")}), "fewer bytes than it claims"},
      {bytes_of(Frame{.kind = FrameKind::heartbeat, .version = control::wire_version + 1}),
       "it sent a message of another version"},
  };
  for (const auto& [bytes, expected] : cases) {
    const std::uint16_t port = free_port();
    Planes planes(3);
    std::unique_ptr<RawPeer> broken;
    {
      std::jthread first([&] { planes[0] = control::join_processes(rendezvous_of(0, 3, port), quick_settings()); });
      planes[2] = nullptr;
      std::jthread second([&] { planes[2] = control::join_processes(rendezvous_of(2, 3, port), quick_settings()); });
      broken = connect_when_ready(port);
      broken->greet(rendezvous_of(1, 3, port));
      while (broken->receive()->kind != FrameKind::welcome) {
      }
    }
    Notes notes;
    for (const int process : {0, 2}) {
      planes[process]->on_lost([&, process](int lost, const std::string& why) {
        notes.add(std::to_string(process) + " lost " + std::to_string(lost) + ": " + why);
      });
    }
    broken->send(bytes);
    for (const std::string& note : notes.wait(2)) CHECK_THAT(note, Contains(" lost 1: ") && Contains(expected));
    CHECK(notes.all().size() == 2);
    in_threads(2, [&](int i) { planes[i == 0 ? 0 : 2]->leave(); });
  }
}

TEST_CASE("process 0 that sends what it must not is lost to a process", "[control]") {
  const std::uint16_t port = free_port();
  Bytes answer = bytes_of(Frame{.kind = FrameKind::accepted});
  std::vector<ProcessInfo> all(2);
  all[1].process = 1;
  for (const Bytes& next : {bytes_of(Frame{.kind = FrameKind::welcome, .payload = to_bytes(all)}),
                            bytes_of(Frame{.kind = FrameKind::lost, .payload = to_bytes(control::Loss{7, "who?"})})})
    answer.insert(answer.end(), next.begin(), next.end());
  const FakeServer server(port, answer);
  const auto plane = control::join_processes(rendezvous_of(1, 2, port), quick_settings());
  Notes notes;
  plane->on_lost([&](int process, const std::string& why) { notes.add(std::to_string(process) + ": " + why); });
  REQUIRE(notes.wait(1) == std::vector<std::string>{"0: it lost a process that does not exist"});
  plane->leave();
}

TEST_CASE("a process that accepts no messages is lost before too many wait for it", "[control]") {
  auto settings = quick_settings();
  settings.most_queued = std::size_t{8} << 20;
  const std::uint16_t port = free_port();
  std::unique_ptr<ControlPlane> first;
  std::atomic<bool> over = false;
  std::jthread deaf;
  {
    std::jthread joining([&] { first = control::join_processes(rendezvous_of(0, 2, port), settings); });
    deaf = std::jthread([&] {  // alive, but never reads
      const auto peer = connect_when_ready(port);
      peer->greet(rendezvous_of(1, 2, port));
      while (!over) {
        peer->send(Frame{.kind = FrameKind::heartbeat});
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
    });
  }
  Notes notes;
  first->on_lost([&](int process, const std::string& why) { notes.add(std::to_string(process) + ": " + why); });
  for (int i = 0; i < 64; ++i) first->send(1, Channel::engine, Bytes(std::size_t{1} << 20));
  REQUIRE(notes.wait(1) == std::vector<std::string>{"1: it takes no messages: too many wait to be sent to it"});
  over = true;
  first->leave();
}

TEST_CASE("tokens are the same only when every byte is", "[control]") {
  const auto same = [](const std::string& shown, const std::string& token) {
    return control::same_token(bytes_of(shown), token);
  };
  CHECK(same("", ""));
  CHECK(same("abc", "abc"));
  CHECK_FALSE(same("abc", "abd"));
  CHECK_FALSE(same("abc", "ab"));
  CHECK_FALSE(same("", "a"));
  CHECK_FALSE(same(std::string("ab\0", 3), "ab"));
  const std::string longest(control::most_token_bytes, 'x');
  CHECK(same(longest, longest));
  CHECK_FALSE(same(longest + "y", longest + "y"));
}

}  // namespace pipetrain::test
