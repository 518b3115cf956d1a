#include "bench/fuzz/target.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <iterator>
#include <stdexcept>

namespace pipetrain::fuzz {

void put_file(const std::filesystem::path& path, std::string_view content) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) throw std::runtime_error("cannot write " + path.string());
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t put = ::write(file, content.data() + done, content.size() - done);
    if (put <= 0) break;
    done += static_cast<std::size_t>(put);
  }
  ::close(file);
  if (done < content.size()) throw std::runtime_error("cannot write " + path.string());
}

std::vector<Target> all_targets(const std::filesystem::path& folder) {
  std::vector<Target> all = model_targets(folder);
  for (auto&& some :
       {data_targets(folder), parquet_targets(folder), tokenizer_targets(), template_targets(), token_file_targets(folder),
        plan_targets(), record_targets(folder), checkpoint_targets(folder), control_targets(), engine_targets(), ucx_targets()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

}  // namespace pipetrain::fuzz
