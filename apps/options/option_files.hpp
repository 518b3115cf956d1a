// The files and folders that options name, checked before anything is written.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/options/option_values.hpp"

namespace pipetrain {

// The way a file is written: as a draft in the same folder that replaces the whole file, or in place.
enum class Written { whole, in_place };

// Returns the file or stream that this option names, if it is given and can be made or written: checked without touching it.
// Throws Error(input).
std::optional<std::filesystem::path> output_file(const OptionValues& values, const std::string& name,
                                                 Written how = Written::whole);
// Returns the folder that this option names, if it is given: one that can be written, or made below one that can, and not the
// root.
std::optional<std::filesystem::path> output_folder(const OptionValues& values, const std::string& name);

// Throws Error(input) where what this option names cannot be looked at or read, which is not the same as not being there: a
// folder without the right to search it, say.
void refuse_unreadable(const OptionValues& values, const std::string& name);
// Throws Error(input) where what this option names is not there or is no regular file.
void check_input_file(const OptionValues& values, const std::string& name);

// Options by name, given or not. Inputs name a file or a folder; what is neither, such as a preset's name, is passed over.
struct OptionFiles {
  std::vector<std::string> inputs;
  std::vector<std::string> output_files;
  std::vector<std::string> output_folders;
};

// Throws Error(input), naming both options, where an output would damage what another option reads or writes: where it is the
// same file by device and inode, however it is called, or one in an input folder or a new one there; where it lies in what
// --save replaces; and where stdout or stderr goes to the same file. Streams may be shared. A folder that is written must not
// be one that is read, nor lie in the checkpoint of --load, nor hold the model that is read as the one it will write.
void refuse_shared_files(const OptionValues& values, const OptionFiles& options);

}  // namespace pipetrain
