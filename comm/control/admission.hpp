// Decides whether a process may join a run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/control/handshake.hpp"

namespace pipetrain::control {

// Compares a process's greeting with process 0's own and with those who have joined: `joined` has one entry per
// process, empty before that.
std::optional<Refusal> refusal_of(const Hello& hello, const Hello& first,
                                  const std::vector<std::optional<ProcessInfo>>& joined);

// Compares a newcomer's greeting with that of a process of the run: the program and the settings.
std::optional<Refusal> refusal_of_newcomer(const Hello& hello, const Hello& own);
// Returns the refusal for the first value that differs, by name.
std::optional<Refusal> refusal_of_values(const std::vector<std::pair<std::string, std::string>>& theirs,
                                         const std::vector<std::pair<std::string, std::string>>& ours);

// Refuses a process of another launcher's job; no value where the jobs are equal. The run continues to wait for its own
// processes. Call it after the token has been checked.
std::optional<Refusal> refusal_of_job(const Hello& hello, const Hello& first);

// Returns the refusal of a process that has shown another token than `token`.
Refusal wrong_token(std::span<const std::byte> shown, const std::string& token);
Refusal wrong_version(int theirs, int ours);

// Returns "process 1, process 3 (it was refused: ...) and 5 more": the processes that have not joined, with the entry
// of `known` about each, which may be empty.
std::string missing(const std::vector<std::optional<ProcessInfo>>& joined, const std::vector<std::string>& known);

}  // namespace pipetrain::control
