#include "comm/forked_run.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

namespace pipetrain::test {

ForkedRun::ForkedRun(int processes, int here) : children_(static_cast<std::size_t>(processes)) {
  const std::uint16_t port = free_port();
  for (int process = 0; process < processes; ++process) {
    if (process == here) continue;
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    Child& child = children_[static_cast<std::size_t>(process)];
    child.pid = ::fork();
    if (child.pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close(ends[0]);
      live(process, processes, port, ends[1]);
    }
    ::close(ends[1]);
    child.pipe = ends[0];
  }
  if (here < 0) return;
  plane_ = control::join_processes(rendezvous_of(here, processes, port), quick_settings());
  plane_->on_lost([this](int process, const std::string& why) { losses_.add(std::to_string(process) + ": " + why); });
}

void ForkedRun::live(int process, int processes, std::uint16_t port, int pipe) {
  const auto say = [pipe](const std::string& line) {
    const std::string text = line + "\n";
    if (::write(pipe, text.data(), text.size()) < 0) ::_exit(9);
  };
  try {
    Notes orders;
    const auto plane = control::join_processes(rendezvous_of(process, processes, port), quick_settings());
    plane->on_lost([&](int lost, const std::string& why) { say(std::to_string(lost) + ": " + why); });
    plane->on_message(Channel::transport, [&](int from, std::span<const std::byte> message) {
      plane->send(from, Channel::transport, Bytes(message.begin(), message.end()));
    });
    plane->on_message(Channel::run, [&](int, std::span<const std::byte> message) { orders.add(text_of(message)); });
    say("joined");
    for (std::size_t done = 0;; ++done) {
      while (orders.all().size() == done) orders.wait(done + 1);
      const std::string order = orders.all()[done];
      if (order == "leave") break;
      const std::string error = error_of([&] { plane->exchange(order, {}); });
      say(order + ": " + error);
    }
    plane->leave();
    ::_exit(0);
  } catch (const std::exception& error) {
    say(error.what());
    ::_exit(1);
  }
}

ForkedRun::~ForkedRun() {
  for (const Child& child : children_) {
    if (child.pid <= 0) continue;
    ::kill(child.pid, SIGKILL);
    ::waitpid(child.pid, nullptr, 0);
    ::close(child.pipe);
  }
}

std::string ForkedRun::line(int process) {
  Child& child = children_[static_cast<std::size_t>(process)];
  for (;;) {
    const std::size_t end = child.read.find('\n');
    if (end != std::string::npos) {
      const std::string line = child.read.substr(0, end);
      child.read.erase(0, end + 1);
      return line;
    }
    pollfd waited{child.pipe, POLLIN, 0};
    if (::poll(&waited, 1, 30'000) <= 0) return "silence";
    char bytes[512];
    const ssize_t got = ::read(child.pipe, bytes, sizeof bytes);
    if (got <= 0) return "end";
    child.read.append(bytes, static_cast<std::size_t>(got));
  }
}

void ForkedRun::signal(int process, int number) { ::kill(children_[static_cast<std::size_t>(process)].pid, number); }

int ForkedRun::status(int process) {
  Child& child = children_[static_cast<std::size_t>(process)];
  int status = 0;
  ::waitpid(child.pid, &status, 0);
  child.pid = -1;
  ::close(child.pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace pipetrain::test
