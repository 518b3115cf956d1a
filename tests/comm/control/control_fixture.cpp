#include "comm/control/control_fixture.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "comm/control/held_port.hpp"
#include "core/error.hpp"

namespace pipetrain::test {

std::uint16_t free_port() { return HeldPort(0).port(); }

Rendezvous rendezvous_of(int process, int processes, std::uint16_t port) {
  Rendezvous rendezvous;
  rendezvous.process = process;
  rendezvous.processes = processes;
  rendezvous.port = port;
  rendezvous.token = "a token";
  rendezvous.timeout = std::chrono::seconds(60);
  rendezvous.label = "rank " + std::to_string(process);
  return rendezvous;
}

control::Settings quick_settings() {
  control::Settings settings;
  settings.heartbeat = std::chrono::milliseconds(50);
  settings.silence = std::chrono::milliseconds(1500);
  settings.handshake = std::chrono::milliseconds(1000);
  settings.retry = std::chrono::milliseconds(20);
  settings.farewell = std::chrono::milliseconds(1000);
  return settings;
}

void in_threads(int count, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(work, i);
  for (auto& thread : threads) thread.join();
}

Planes join_all(int processes, const control::Settings& settings, const std::function<void(Rendezvous&)>& change) {
  Planes planes(static_cast<std::size_t>(processes));
  const std::uint16_t port = free_port();
  std::exception_ptr failure;
  std::mutex mutex;
  in_threads(processes, [&](int process) {
    try {
      Rendezvous rendezvous = rendezvous_of(process, processes, port);
      if (change) change(rendezvous);
      planes[static_cast<std::size_t>(process)] = control::join_processes(rendezvous, settings);
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  });
  if (failure) std::rethrow_exception(failure);
  return planes;
}

void leave_all(Planes& planes) {
  in_threads(static_cast<int>(planes.size()), [&](int process) { planes[static_cast<std::size_t>(process)]->leave(); });
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(to_string(error.kind())) + ": " + error.what();
  }
  return "nothing";
}

void Notes::add(const std::string& note) {
  const std::lock_guard lock(mutex_);
  notes_.push_back(note);
  changed_.notify_all();
}

std::vector<std::string> Notes::all() const {
  const std::lock_guard lock(mutex_);
  return notes_;
}

std::vector<std::string> Notes::wait(std::size_t count) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::seconds(30), [&] { return notes_.size() >= count; });
  return notes_;
}

Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

}  // namespace pipetrain::test
