// Measures the speed of tokenizers, and compares it with Hugging Face's library on the same text, if it is installed.
//
// bench_tokenizer [TOKENIZER.json...]
//
// Without files it measures the seven small ones of the tests. The text is 8 MB in documents of 4 to 8 KB: the text
// built into the program, and in every eighth document code and words in other scripts. Python is $PIPETRAIN_PYTHON,
// else python3; its library gets one thread too.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "bench/result.hpp"
#include "data/open_dataset.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace {

namespace fs = std::filesystem;
using pipetrain::bench::Limit;

constexpr int rounds = 3;

// Documents of mixed text: English, and every eighth of other scripts, digits and code.
std::vector<std::string> make_documents(std::size_t bytes) {
  const std::string_view english = pipetrain::inside_text();
  const std::string mixed =
      "def encode(self, text: str) -> list[int]:\n    return [self.ids[c] for c in text if c != 0x20]  # 2024-11-22\n"
      "\xD0\x92\xD1\x81\xD0\xB5 \xD1\x81\xD1\x87\xD0\xB0\xD1\x81\xD1\x82\xD0\xBB\xD0\xB8\xD0\xB2\xD1\x8B\xD0\xB5 "
      "\xE6\x9D\xB1\xE4\xBA\xAC\xE3\x81\xAF\xE6\x97\xA5\xE6\x9C\xAC\xE3\x81\xAE \xC3\xA9t\xC3\xA9 na\xC3\xAFve "
      "\xF0\x9F\x98\x80 3.14159, 1,000,000;\n";
  std::vector<std::string> documents;
  std::size_t made = 0, at = 0;
  while (made < bytes) {
    std::string text(english.substr(at, 4000));
    at = (at + 4000 + 977) % (english.size() - 4000);
    if (documents.size() % 8 == 7)
      while (text.size() < 8000) text += mixed;
    made += text.size();
    documents.push_back(std::move(text));
  }
  return documents;
}

// Returns the CPU time of this thread, without that of other programs.
double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Returns megabytes a second on one core: the best of several passes, each with a new encoder.
double our_rate(const pipetrain::Tokenizer& tokenizer, const std::vector<std::string>& documents, std::size_t& tokens) {
  double best = 0;
  std::vector<std::int32_t> ids;
  for (int round = 0; round < rounds; ++round) {
    const auto encoder = tokenizer.encoder();
    std::size_t bytes = 0;
    tokens = 0;
    const double begin = cpu_seconds();
    for (const std::string& document : documents) {
      ids.clear();
      encoder->encode(document, pipetrain::SpecialTokens::leave_out, ids);
      tokens += ids.size();
      bytes += document.size();
    }
    best = std::max(best, static_cast<double>(bytes) / (cpu_seconds() - begin) / 1e6);
  }
  return best;
}

constexpr const char* their_program = R"(
import os, sys, time
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
from tokenizers import Tokenizer
raw = open(sys.argv[2], "rb").read().split(b"\0")[:-1]
documents, size, best, tokens = [d.decode() for d in raw], sum(map(len, raw)), 0, 0
for _ in range(int(sys.argv[3])):
    tokenizer = Tokenizer.from_file(sys.argv[1])
    begin = time.process_time()
    encoded = tokenizer.encode_batch_fast(documents, add_special_tokens=False)
    best = max(best, size / (time.process_time() - begin) / 1e6)
    tokens = sum(len(e) for e in encoded)
print(best, tokens)
)";

struct Theirs {
  double rate = 0;
  std::size_t tokens = 0;
};

// Returns nothing if Python has no such library.
std::optional<Theirs> their_rate(const std::string& python, const fs::path& tokenizer, const fs::path& text,
                                 const fs::path& program) {
  const std::string command =
      fmt::format("'{}' '{}' '{}' '{}' {} 2>/dev/null", python, program.string(), tokenizer.string(), text.string(), rounds);
  FILE* out = ::popen(command.c_str(), "r");
  if (out == nullptr) return std::nullopt;
  Theirs theirs;
  const int read = std::fscanf(out, "%lf %zu", &theirs.rate, &theirs.tokens);
  const int status = ::pclose(out);
  return read == 2 && status == 0 ? std::optional(theirs) : std::nullopt;
}

std::string path_for(const char* name) {
  return (fs::temp_directory_path() / fmt::format("pipetrain-bench-tokenizer-{}-{}", ::getpid(), name)).string();
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<fs::path> files(argv + 1, argv + argc);
  const char* named = std::getenv("PIPETRAIN_PYTHON");
  const std::string python = named != nullptr ? named : "python3";
  if (files.empty())
    for (const char* name : {"gpt2", "llama3", "llama2", "unigram", "lowercase", "t5", "bert"})
      files.push_back(fs::path(PIPETRAIN_TOKENIZERS) / (std::string(name) + ".json"));
  const std::vector<std::string> documents = make_documents(8'000'000);
  const fs::path text = path_for("text"), program = path_for("program.py");
  std::ofstream text_file(text, std::ios::binary);
  for (const std::string& document : documents) text_file << document << '\0';
  text_file.close();
  std::ofstream(program) << their_program;
  bool pass = true;
  for (const fs::path& file : files) {
    const std::string name = "tokenizer " + file.stem().string();
    const auto tokenizer = pipetrain::open_tokenizer(file);
    std::size_t tokens = 0;
    const double ours = our_rate(*tokenizer, documents, tokens);
    pass &= pipetrain::bench::report(name + " a core", ours, "MB/s", Limit::at_least, 5);
    const auto theirs = their_rate(python, file, text, program);
    if (!theirs) {
      fmt::print(stderr, "tokenizer: note: {} has no tokenizers (PyPI), so {} is not compared\n", python, file.string());
      continue;
    }
    pipetrain::bench::report(name + " Hugging Face a core", theirs->rate, "MB/s");
    pass &= pipetrain::bench::report(name + " ratio to Hugging Face", ours / theirs->rate, "x", Limit::at_least, 2);
    pass &= pipetrain::bench::report(
        name + " difference in tokens",
        static_cast<double>(tokens > theirs->tokens ? tokens - theirs->tokens : theirs->tokens - tokens), "tokens",
        Limit::at_most, 0);
  }
  fs::remove(text);
  fs::remove(program);
  return pass ? 0 : 1;
}
