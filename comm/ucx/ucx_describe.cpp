#include <cstdio>
#include <cstdlib>
#include <exception>
#include <set>
#include <sstream>
#include <string>

#include "comm/ucx/ucx_transport.hpp"
#include "comm/ucx/ucx_worker.hpp"

namespace pipetrain {
namespace {

std::string version() {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  return "UCX " + std::to_string(major) + '.' + std::to_string(minor) + '.' + std::to_string(release);
}

// UCX reports what it found only as text for people: lines such as "# resource 2 : md 1 dev 3 flags -- tcp/eth0".
std::string context_text(ucp_context_h context) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* file = open_memstream(&text, &size);
  if (file == nullptr) return {};
  ucp_context_print_info(context, file);
  std::fclose(file);
  std::string copy(text, size);
  std::free(text);
  return copy;
}

std::set<std::string> resources(const std::string& text) {
  std::set<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto last = line.find_last_of(' ');
    if (line.find(" resource ") == std::string::npos || last == std::string::npos) continue;
    if (line.find('/', last) != std::string::npos) found.insert(line.substr(last + 1));
  }
  return found;
}

bool any_begins(const std::set<std::string>& names, const std::string& with) {
  const auto first = names.lower_bound(with);
  return first != names.end() && first->compare(0, with.size(), with) == 0;
}

}  // namespace

std::string describe_ucx() try {
  UcxWorker worker;
  std::set<std::string> found;
  worker.call([&] { found = resources(context_text(worker.context())); });
  std::string line = version() + ":";
  for (const auto& name : found) line += " " + name;
  const bool rdma = any_begins(found, "rc_") || any_begins(found, "dc_") || any_begins(found, "ud_");
  line += rdma ? "; RDMA is used" : "; no RDMA";
  line += any_begins(found, "cuda") ? "; knows CUDA memory" : "; CPU memory only";
  return line;
} catch (const std::exception& error) {
  return version() + " does not start: " + error.what();
}

}  // namespace pipetrain
