// Collects the values of all processes in an exchange.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/control_plane.hpp"
#include "core/wire_fields.hpp"

namespace pipetrain::control {

// One process's part of one exchange, as the payload of a frame.
struct ExchangePart {
  std::uint32_t number = 0;  // of the exchange, counted from 0
  std::string key;
  Bytes bytes;

  static void wire_fields(auto& wire, auto& part) { wire(part.number, part.key, part.bytes); }
};

// Thread-safe.
class ExchangeBoard {
 public:
  // patience: see Settings.
  ExchangeBoard(int processes, std::chrono::milliseconds patience)
      : patience_(patience), gone_(static_cast<std::size_t>(processes)) {}

  // Returns the number of the exchange that this process takes part in now.
  std::uint32_t begin();
  // Throws Error(peer_lost) for an impossible part: one of an exchange that is over or far ahead, or a second one of a
  // process.
  void put(int from, ExchangePart part);
  // Notes that no more parts come from this process. `lost`: it did not leave on purpose.
  void gone(int process, bool lost, const std::string& why);

  // Blocks until all parts of the exchange have arrived. Throws Error: peer_lost, naming the process, when one is gone() or
  // exceeds the patience (its connection may live on while its thread hangs); internal when a process gave another key.
  std::vector<Bytes> wait(std::uint32_t number, const std::string& key, const std::vector<ProcessInfo>& all);

 private:
  struct Gone {
    bool lost = false;
    std::string why;
  };
  using Parts = std::vector<std::optional<ExchangePart>>;  // by process

  bool complete(const Parts& parts) const;
  std::vector<Bytes> take(std::uint32_t number, const std::string& key, const std::vector<ProcessInfo>& all);
  void throw_if_hopeless(const Parts& parts, const std::string& key, const std::vector<ProcessInfo>& all) const;
  [[noreturn]] void throw_late(const Parts& parts, const std::string& key, const std::vector<ProcessInfo>& all) const;

  std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint32_t begun_ = 0;  // number of exchanges
  std::map<std::uint32_t, Parts> parts_;
  std::vector<std::optional<Gone>> gone_;  // by process
};

}  // namespace pipetrain::control
