// Runs the program under test as a user without special permissions.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include "apps/pipetrain_program.hpp"
#include "temp_folder.hpp"

namespace pipetrain {

// Runs the program as a user whom permissions bind; root drops the two capabilities that exempt it.
inline Result run_bound(const std::string& arguments) {
  if (::geteuid() != 0) return run(arguments);
  return run_program("/usr/bin/setpriv", "--bounding-set=-dac_override,-dac_read_search '" + program_path() + "' " + arguments);
}

// Returns true if permissions bind a program that is run so.
inline bool permissions_bind() {
  if (::geteuid() != 0) return true;
  const TempFolder folder;
  const std::string file = folder.write("file", "").string();
  std::filesystem::permissions(file, std::filesystem::perms::none);
  const std::string bound = "--bounding-set=-dac_override,-dac_read_search ";
  if (run_program("/usr/bin/setpriv", bound + "true").status == 0 &&
      run_program("/usr/bin/setpriv", bound + "cat " + file).status != 0)
    return true;
  WARN("root's capabilities cannot be dropped here: not tested");
  return false;
}

}  // namespace pipetrain
