// What a command prints whose results are in files.
#pragma once

#include <filesystem>
#include <string>

namespace pipetrain {

// Prints the line on stdout at once. Where it cannot be written, a note says so, with the place where the results are: the
// command has done what it was asked for.
void print_saved_result(const std::string& line, const std::filesystem::path& place);

}  // namespace pipetrain
