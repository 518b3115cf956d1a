// Kernels of ops/cuda that launch() starts may run before the previous one has ended: forgetting the wait is a race
// that no run need reveal.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "catch.hpp"
#include "paths.hpp"

namespace fs = std::filesystem;

namespace {

std::string kernel_text(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

std::size_t count(const std::string& text, const std::string& words) {
  std::size_t found = 0;
  for (auto at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("every kernel that may overlap the one before it waits for it, and claims no memory as unchanging") {
  std::size_t kernels = 0;
  const fs::path root = fs::path(pipetrain::source_folder()) / "ops/cuda";
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    const std::string text = kernel_text(entry.path());
    // A file starts all its kernels in one way.
    if (count(text, "__global__") == 0 || count(text, " launch(stream") == 0) continue;
    INFO(entry.path());
    CHECK(count(text, "wait_for_previous();") == count(text, "__global__"));
    CHECK(count(text, "__restrict__") == 0);
    kernels += count(text, "__global__");
  }
  CHECK(kernels > 0);
  for (const char* apart : {"attention/attention.cu", "attention/attention_gradients.cu", "attention/attention_mma.cu",
                            "attention/attention_mma_backward.cu", "gemm/small_gemm.cu"}) {
    REQUIRE(fs::exists(root / apart));
    CHECK(count(kernel_text(root / apart), " launch(stream") == 0);
  }
}
