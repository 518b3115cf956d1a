// Pointers of Git LFS instead of files.
#include "catch.hpp"
#include "core/error.hpp"
#include "files/file_io.hpp"
#include "files/mapped_file.hpp"
#include "temp_folder.hpp"

namespace pipetrain {
namespace {

const std::string lfs_pointer =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";

template <class Open>
std::string lfs_error(const Open& open) {
  try {
    open();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
  return "";
}

TEST_CASE("a pointer of Git LFS is refused however it is opened") {
  const TempFolder folder;
  const auto file = folder.write("model.safetensors", lfs_pointer);
  const std::string expected =
      file.string() +
      ": is a Git LFS pointer, not the file itself, which has not been downloaded; run git lfs pull in "
      "its repository";
  CHECK(lfs_error([&] { const InputFile input(file); }) == expected);
  CHECK(lfs_error([&] { const MappedFile input(file); }) == expected);
  CHECK(lfs_error([&] { read_text(file, 1000); }) == expected);
}

TEST_CASE("a text that only speaks of Git LFS is read") {
  const TempFolder folder;
  for (const std::string& text :
       {"The " + lfs_pointer, lfs_pointer + std::string(1024, 'x'), std::string("version"), std::string("v")}) {
    const auto file = folder.write("text", text);
    CHECK(lfs_error([&] { const MappedFile input(file); }).empty());
    CHECK(read_text(file, 10'000) == text);
  }
}

}  // namespace
}  // namespace pipetrain
