// The view of an installed pipetrain from another program. The sanitizers' builds omit this, because a consumer would
// need their flags.
#ifndef PIPETRAIN_SANITIZED
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "catch.hpp"
#include "paths.hpp"

namespace fs = std::filesystem;

namespace {

struct Result {
  int status = 0;
  std::string output;  // stdout and stderr
};

Result run(const std::string& command) {
  Result result;
  FILE* pipe = ::popen(("{ " + command + "; } 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  char buffer[4096];
  while (const std::size_t count = std::fread(buffer, 1, sizeof buffer, pipe)) result.output.append(buffer, count);
  const int status = ::pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return result;
}

// An installation of the development files in a temporary folder, made once for all cases.
class Installation {
 public:
  Installation()
      : root_(fs::temp_directory_path() / ("pipetrain install " + std::to_string(::getpid()))) {  // a space, on purpose
    const Result installed = run(cmake() + " --install '" + pipetrain::build_folder() + "' --component development --prefix '" +
                                 prefix().string() + "'");
    INFO(installed.output);
    REQUIRE(installed.status == 0);
  }
  ~Installation() { fs::remove_all(root_); }

  fs::path prefix() const { return root_ / "prefix"; }

  // Configures, builds and runs tests/structure/consumer for the component; returns the program's output.
  Result consume(const std::string& component, const std::string& options = "") const {
    const std::string folder = "'" + (root_ / component).string() + "'";
    const std::string source = "'" + pipetrain::source_folder() + "/tests/structure/consumer'";
    const Result built =
        run(cmake() + " -G Ninja -S " + source + " -B " + folder + " -DCMAKE_PREFIX_PATH='" + prefix().string() +
            "' -DCOMPONENT=" + component + ' ' + options + " && " + cmake() + " --build " + folder);
    return built.status == 0 ? run(folder + "/consumer") : built;
  }

  // Builds examples/c_pipeline.c with a C compiler and pkg-config alone; returns the program's output.
  Result build_c_example() const {
    const std::string program = "'" + (root_ / "c_pipeline").string() + "'", lib = library_folder().string();
    // pkg-config escapes blanks for the shell, hence eval.
    const std::string config = "PKG_CONFIG_PATH='" + lib + "/pkgconfig' pkg-config --cflags --libs pipetrain";
    const Result built = run("flags=$(" + config + ") && eval \"cc -std=c11 -Wall -Wextra -Werror '" +
                             pipetrain::source_folder() + "/examples/c_pipeline.c' -o " + program + " $flags\"");
    return built.status == 0 ? run("LD_LIBRARY_PATH='" + lib + "' " + program) : built;
  }

  // Compiles every C++ example of a page as a function of one program, which includes the headers that the page's
  // headings name.
  Result run_examples(const std::string& page) const {
    const fs::path source = root_ / "examples";
    fs::create_directories(source);
    fs::copy_file(pipetrain::source_folder() + "/tests/structure/consumer/CMakeLists.txt", source / "CMakeLists.txt");
    std::ofstream(source / "training.cpp") << program_of(page);
    const std::string folder = "'" + (source / "build").string() + "'";
    const Result built = run(cmake() + " -G Ninja -S '" + source.string() + "' -B " + folder + " -DCMAKE_PREFIX_PATH='" +
                             prefix().string() + "' -DCOMPONENT=training && " + cmake() + " --build " + folder);
    return built.status == 0 ? run(folder + "/consumer") : built;
  }

 private:
  static std::string program_of(const std::string& page) {
    std::string includes = "#include <iostream>\n", functions, calls;
    std::istringstream lines(page);
    bool in_example = false;
    int examples = 0;
    for (std::string line; std::getline(lines, line);) {
      if (line == "```cpp") {
        functions += "void example_" + std::to_string(++examples) + "() {\n";
        calls += "  example_" + std::to_string(examples) + "();\n";
        in_example = true;
      } else if (line == "```" && in_example) {
        functions += "}\n";
        in_example = false;
      } else if (in_example) {
        functions += line + "\n";
      } else if (line.rfind("### ", 0) == 0) {
        std::istringstream headers(line.substr(4));
        for (std::string header; std::getline(headers >> std::ws, header, ',');) includes += "#include \"" + header + "\"\n";
      }
    }
    return includes + "using namespace pipetrain;\n" + functions + "int main() {\n" + calls + "}\n";
  }
  // Returns the folder of libpipetrain.so: lib, or lib/ of the architecture.
  fs::path library_folder() const {
    for (const auto& entry : fs::recursive_directory_iterator(prefix()))
      if (entry.path().filename() == "libpipetrain.so") return entry.path().parent_path();
    return prefix() / "lib";
  }
  static std::string cmake() { return "'" + pipetrain::cmake_program() + "'"; }

  fs::path root_;
};

const Installation& installation() {
  static const Installation once;
  return once;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Makes CMake refuse to find the packages, as on a machine without them.
std::string without(const std::string& packages) {
  std::istringstream words(packages);
  std::string options;
  for (std::string package; words >> package;) options += "-DCMAKE_DISABLE_FIND_PACKAGE_" + package + "=ON ";
  return options;
}

}  // namespace

TEST_CASE("an installed pipetrain::schedules needs nothing else", "[install]") {
  const Result result =
      installation().consume("schedules", without("CAF oneDNN fmt Threads simdjson nlohmann_json CUDAToolkit"));
  INFO(result.output);
  REQUIRE(result.status == 0);
  CHECK(result.output == "4 3 2 1 ");
}

TEST_CASE("an installed pipetrain::engine needs no matrix library", "[install]") {
  const Result result = installation().consume("engine", without("oneDNN"));
  INFO(result.output);
  REQUIRE(result.status == 0);
  CHECK(result.output == "2");
}

TEST_CASE("an installed pipetrain::training finds what it needs by itself", "[install]") {
  const Result result = installation().consume("training");
  INFO(result.output);
  REQUIRE(result.status == 0);
  CHECK(result.output == "16");
}

TEST_CASE("an installed pipetrain::c needs nothing else", "[install]") {
  const Result result = installation().consume("c", without("CAF oneDNN fmt Threads simdjson nlohmann_json UCX CUDAToolkit"));
  INFO(result.output);
  REQUIRE(result.status == 0);
  CHECK(result.output == "27");
}

TEST_CASE("the example in C builds with pkg-config alone, and learns", "[install]") {
  const Result result = installation().build_c_example();
  INFO(result.output);
  REQUIRE(result.status == 0);
  CHECK(result.output.find("step 1  loss 46.8") != std::string::npos);
  CHECK(result.output.find("step 10  loss 0.0") != std::string::npos);
}

TEST_CASE("an unknown component of the package is refused by name", "[install]") {
  const Result result = installation().consume("teleport");
  CHECK(result.status != 0);
  INFO(result.output);
  CHECK(result.output.find("'teleport'") != std::string::npos);
}

TEST_CASE("only public headers are installed, under include/pipetrain by room", "[install]") {
  const fs::path include = installation().prefix() / "include/pipetrain";
  for (const char* header : {"core/tensor.hpp", "schedules/plan/plan.hpp", "actors/engine/pipeline.hpp"}) {
    INFO(header);
    CHECK(fs::exists(include / header));
  }
  for (const char* header : {"actors/engine/protocol.hpp", "schedules/plan/plan_run.hpp", "core/threads/tile_pool.hpp"}) {
    INFO(header);
    CHECK(!fs::exists(include / header));
  }
}

TEST_CASE("the examples of docs/api.md build and run against an installation", "[install]") {
  const Result result = installation().run_examples(read_file(pipetrain::source_folder() + "/docs/api.md"));
  INFO(result.output);
  REQUIRE(result.status == 0);
  CHECK(result.output.find("27 0.111111") != std::string::npos);
  CHECK(result.output.find("step 2 loss 5.") != std::string::npos);
  CHECK(result.output.find("not available: this machine has no GPU") != std::string::npos);
}
#endif
