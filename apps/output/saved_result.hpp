// Prints the last line of a command whose results are in files.
#pragma once

#include <filesystem>
#include <string>

namespace pipetrain {

// Prints the line on stdout at once. If that fails, prints a note with the path of the results, since the command
// itself has succeeded.
void print_saved_result(const std::string& line, const std::filesystem::path& place);

}  // namespace pipetrain
