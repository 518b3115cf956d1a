#include "structure/layering.hpp"
#include "paths.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "catch.hpp"

namespace fs = std::filesystem;
using pipetrain::structure::violations;

namespace {

// A small repository on disk that obeys every rule, for the tests to break.
class SmallTree {
 public:
  SmallTree() : root_(fs::temp_directory_path() / ("pipetrain-layering-" + std::to_string(::getpid()))) {
    fs::remove_all(root_);
    write("core/error.hpp", "#include <string>\nint f(int i) { return g(\"a\", --i, \"b\"); }  // \"--tp\"\n");
    write("core/cuda/device_cuda.cpp", "#include <cuda_runtime.h>\n#include \"core/error.hpp\"\n");
    write("schedules/plan/plan.hpp", "#include <vector>\n");
    write("comm/ucx.cpp", "#include <ucp/api/ucp.h>\n#include <boost/asio.hpp>\n#include \"core/error.hpp\"\n");
    write("ops/cpu/norm.cpp", "#include \"core/error.hpp\"\n");
    write("ops/cuda/norm/norm.cu", "#include <cuda_runtime.h>\n__global__ void kernel() {}\n");
    write("actors/engine/stage.cpp", "#include <caf/all.hpp>\n#include \"schedules/plan/plan.hpp\"\n");
    write("actors/training/feeder.cpp", "#include \"core/error.hpp\"\n");
    write("apps/main.cpp", "#include \"schedules/plan/plan.hpp\"\n");
  }
  ~SmallTree() { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::vector<std::string> check() const { return violations(root_); }

 private:
  fs::path root_;
};

struct Wrong {
  std::string path, text, expected;
};

}  // namespace

TEST_CASE("every room includes only what the plan of the house allows") {
  const auto found = violations(pipetrain::source_folder());
  for (const std::string& violation : found) UNSCOPED_INFO(violation);
  CHECK(found.empty());
}

TEST_CASE("the layering check accepts a tree that obeys") { CHECK(SmallTree().check().empty()); }

TEST_CASE("the layering check catches each kind of violation") {
  const std::vector<Wrong> cases = {
      {"model/x.cpp", "#include \"comm/y.hpp\"\n", "model/x.cpp:1: model may not include comm/y.hpp"},
      {"ops/x.cpp", "#include \"model/y.hpp\"\n", "ops/x.cpp:1: ops may not include model/y.hpp"},
      {"core/x.cpp", "\n#include \"model/y.hpp\"\n", "core/x.cpp:2: core may not include model/y.hpp"},
      {"tuning/x.cpp", "#include \"comm/y.hpp\"\n", "tuning/x.cpp:1: tuning may not include comm/y.hpp"},
      {"actors/engine/x.cpp", "#include \"actors/training/y.hpp\"\n", "actors/engine may not include actors/training/y.hpp"},
      {"schedules/plan/x.cpp", "#include \"schedules/protocol/y.hpp\"\n",
       "schedules/plan may not include schedules/protocol/y.hpp"},
      {"model/config/x.cpp", "#include \"model/y.hpp\"\n", "model/config may not include model/y.hpp"},
      {"schedules/x.cpp", "#include \"core/error.hpp\"\n", "schedules may not include core/error.hpp"},
      {"schedules/x.cpp", "#include <fmt/core.h>\n", "schedules uses the standard library only"},
      {"schedules/x.cpp", "#include <unistd.h>\n", "schedules uses the standard library only"},
      {"model/x.cpp", "#include <core/error.hpp>\n", "write \"core/error.hpp\""},
      {"model/x.cpp", "#include \"core/missing.hpp\"\n", "core/missing.hpp does not exist"},
      {"model/x.cpp", "#include \"error.hpp\"\n", "names no room"},
      {"model/x.cpp", "  #  include <caf/all.hpp>\n", "CAF belongs to actors/"},
      {"actors/engine/x.cpp", "#include <ucp/api/ucp.h>\n", "UCX belongs to comm/"},
      {"ops/cuda/x.cpp", "#include <nccl.h>\n", "NCCL belongs to comm/"},
      {"actors/training/x.cpp", "#include <sys/socket.h>\n", "sockets belong to comm/"},
      {"data/arrow/x.cpp", "#include <parquet/arrow/reader.h>\n", "Arrow belongs to data/arrow/module/"},
      {"ops/cpu/x.cpp", "#include <cublasLt.h>\n", "CUDA belongs to"},
      {"core/device.cpp", "#include <cuda_runtime.h>\n", "CUDA belongs to"},
      {"ops/cuda/x.cu", "int host_only() { return 0; }  // __global__\n", "holds no device code"},
      {"ops/cuda/x.cpp", "__global__ void kernel() {}\n", "holds device code"},
      {"data/x.cpp", "const char* advice = \"use --tp 2\";\n", "data/x.cpp:1: spells a command-line option"},
      {"actors/engine/deep/stage.cpp", "", "has the name of actors/engine/"},
      {"ops/norm.cpp", "", "has the name of ops/"},
  };
  for (const Wrong& wrong : cases) {
    SmallTree tree;
    tree.write(wrong.path, wrong.text);
    const auto found = tree.check();
    INFO(wrong.path << ": " << wrong.text);
    REQUIRE(found.size() == 1);
    INFO(found[0]);
    CHECK(found[0].find(wrong.expected) != std::string::npos);
  }
}
