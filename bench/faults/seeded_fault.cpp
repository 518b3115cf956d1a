#include "bench/faults/seeded_fault.hpp"

#include <fmt/format.h>

#include <random>

#include "core/mesh.hpp"

namespace pipetrain::bench {

const char* to_string(Fault kind) {
  constexpr const char* names[] = {"throw",           "exit",         "kill -9",   "SIGSTOP",
                                   "hang in compute", "dropped link", "full disk", "out of memory"};
  return names[static_cast<int>(kind)];
}

SeededFault seeded_fault(Fault kind, unsigned seed) {
  std::mt19937 random(seed * 8 + static_cast<unsigned>(kind));
  const auto pick = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
  SeededFault fault;
  fault.kind = kind;
  fault.processes = 2 + pick(7);
  const int ranks = fault.processes <= 4 ? fault.processes * (1 + pick(2)) : fault.processes;
  fault.dp = ranks % 2 == 0 ? 1 + pick(2) : 1;
  fault.pp = ranks / fault.dp;
  fault.rank = kind == Fault::disk ? 0 : pick(ranks);  // process 0 writes
  fault.process = deal_ranks(ranks, fault.processes)[static_cast<std::size_t>(fault.rank)].process;
  fault.step = 3 + pick(10);
  fault.restart = seed % 2 == 0;
  return fault;
}

std::string SeededFault::layout() const { return fmt::format("--pp {} --dp {}", pp, dp); }

std::string SeededFault::variable() const {
  const char* word = nullptr;
  if (kind == Fault::raise) word = "throw";
  if (kind == Fault::exit) word = "exit";
  if (kind == Fault::hang) word = "hang";
  if (kind == Fault::memory) word = "oom";
  return word ? fmt::format("PIPETRAIN_FAULT={}:{}:{}", rank, step, word) : "";
}

bool SeededFault::is_named_in(const std::string& line) const {
  const auto has = [&](const std::string& part) { return line.find(part) != std::string::npos; };
  const std::string named = fmt::format("process {} (", process);
  for (int other = 0; other < processes; ++other)
    if (other != process && has(fmt::format("process {} (", other))) return false;
  switch (kind) {
    case Fault::raise:
      return has(fmt::format("rank {} (", rank)) && has("a fault was asked for");
    case Fault::memory:
      return has(fmt::format("rank {} (", rank)) && has("bytes");
    case Fault::exit:
      return has(named) && has("ended with status 1");
    case Fault::kill:
      return has(named) && has("was ended by SIGKILL");
    case Fault::stop:
      return has(named) && has("was stopped by SIGSTOP");
    case Fault::hang:
      return has(
          fmt::format("a worker of stage {}{} hangs", rank % pp, dp > 1 ? fmt::format(" of replica {}", rank / pp) : ""));
    case Fault::link:
      return has(named);
    case Fault::disk:
      return has("--save") && has("No space left");
  }
  return false;
}

}  // namespace pipetrain::bench
