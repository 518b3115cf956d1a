#include "files/made_folders.hpp"

#include <unistd.h>

namespace pipetrain {

namespace fs = std::filesystem;

std::vector<fs::path> make_folders(const fs::path& folder, std::error_code& error) {
  std::vector<fs::path> missing;
  const fs::path whole = fs::absolute(folder, error);
  for (fs::path path = whole; !fs::exists(path, error) && path.has_relative_path(); path = path.parent_path())
    missing.push_back(path);
  fs::create_directories(whole, error);
  return missing;
}

void remove_empty_folders(const std::vector<fs::path>& folders) noexcept {
  for (const fs::path& folder : folders) ::rmdir(folder.c_str());
}

}  // namespace pipetrain
