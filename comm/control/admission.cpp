#include "comm/control/admission.hpp"

#include <algorithm>

namespace pipetrain::control {
namespace {

using AgreedSettings = std::vector<std::pair<std::string, std::string>>;

const std::string* find_setting(const AgreedSettings& settings, const std::string& name) {
  const auto found = std::find_if(settings.begin(), settings.end(), [&](const auto& setting) { return setting.first == name; });
  return found == settings.end() ? nullptr : &found->second;
}

Refusal different(const std::string& name, const std::string* theirs, const std::string* ours) {
  const std::string why = ours != nullptr ? "process 0 has '" + *ours + "'" : "process 0 has none";
  return {ErrorKind::input,
          {name, theirs != nullptr ? *theirs : ""},
          why + (theirs != nullptr ? "" : " and this process has none") + "; give every process of the run the same"};
}

std::optional<Refusal> compare(const AgreedSettings& theirs, const AgreedSettings& ours) {
  for (const auto& [name, value] : ours) {
    const std::string* other = find_setting(theirs, name);
    if (other == nullptr || *other != value) return different(name, other, &value);
  }
  for (const auto& [name, value] : theirs) {
    if (find_setting(ours, name) == nullptr) return different(name, &value, nullptr);
  }
  return std::nullopt;
}

Refusal because(const std::string& why) { return {ErrorKind::input, {}, why}; }

std::optional<Refusal> other_program(const Hello& hello, const Hello& first) {
  if (hello.program == first.program) return std::nullopt;
  return because("this is pipetrain " + hello.program + ", and process 0 of the run is " + first.program +
                 "; start the same version everywhere");
}

std::string where(const ProcessInfo& info) { return "pid " + std::to_string(info.pid) + " on host " + info.host; }

}  // namespace

std::optional<Refusal> refusal_of(const Hello& hello, const Hello& first,
                                  const std::vector<std::optional<ProcessInfo>>& joined) {
  if (auto other = other_program(hello, first)) return other;
  if (hello.processes != first.processes)
    return because("this process was started for a run of " + std::to_string(hello.processes) + " processes, process 0 for " +
                   std::to_string(first.processes) + "; give every process the same number");
  const auto place = static_cast<std::size_t>(hello.info.process);
  if (hello.info.process < 0 || place >= joined.size())
    return because("there is no process " + std::to_string(hello.info.process) + " in a run of " +
                   std::to_string(joined.size()));
  if (joined[place])
    return because("two processes claim to be process " + std::to_string(place) + " of the run: " + where(*joined[place]) +
                   " is it already, and " + where(hello.info) + " came later; give each a number of its own");
  return compare(hello.settings, first.settings);
}

std::optional<Refusal> refusal_of_newcomer(const Hello& hello, const Hello& own) {
  if (auto other = other_program(hello, own)) return other;
  return compare(hello.settings, own.settings);
}

std::optional<Refusal> refusal_of_values(const AgreedSettings& theirs, const AgreedSettings& ours) {
  return compare(theirs, ours);
}

std::optional<Refusal> refusal_of_job(const Hello& hello, const Hello& first) {
  if (hello.job == first.job) return std::nullopt;
  const auto named = [](const Hello& of) { return of.job.empty() ? std::string("no launcher's job") : of.job; };
  return Refusal{ErrorKind::unavailable,
                 {},
                 "another run has that address already: it belongs to " + named(first) + ", this process to " + named(hello) +
                     "; give each run a port of its own"};
}

Refusal wrong_token(std::span<const std::byte> shown, const std::string& token) {
  if (shown.empty()) return because("this process has no token, and the run has one; give every process the same token");
  if (token.empty()) return because("this process has a token, and the run has none; give every process the same token");
  return because(
      "this process's token is not the run's; give every process the same token, or each run a port of its own where another "
      "run listens at this one");
}

Refusal wrong_version(int theirs, int ours) {
  return because("this pipetrain speaks version " + std::to_string(theirs) +
                 " of the protocol between processes, and process 0 " + "version " + std::to_string(ours) +
                 "; start the same version everywhere");
}

std::string missing(const std::vector<std::optional<ProcessInfo>>& joined, const std::vector<std::string>& known) {
  constexpr std::size_t most_named = 8;
  std::vector<std::string> names;
  std::size_t more = 0;
  for (std::size_t process = 0; process < joined.size(); ++process) {
    if (joined[process]) continue;
    if (names.size() == most_named) {
      ++more;
    } else {
      names.push_back("process " + std::to_string(process) + (known[process].empty() ? "" : " (" + known[process] + ")"));
    }
  }
  if (more > 0) names.push_back(std::to_string(more) + " more");
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) list += i + 1 == names.size() ? " and " : ", ";
    list += names[i];
  }
  return list;
}

}  // namespace pipetrain::control
