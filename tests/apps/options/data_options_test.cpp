#include "apps/options/data_options.hpp"

#include "apps/options/train_options.hpp"
#include "catch.hpp"
#include "core/error.hpp"

using namespace pipetrain;

namespace {

using Words = std::vector<std::string>;

DataSettings parse(const Words& arguments) { return parse_train_options(arguments, {}, {0, 8}).run.data; }

std::string error_of(const Words& arguments) {
  try {
    parse(arguments);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error_line(error);
  }
  return "no error";
}

}  // namespace

TEST_CASE("the parts of a text are those of --text-keys in their order") {
  CHECK(parse({}).text_keys.empty());
  CHECK(parse({"--text-keys", "sentence1,sentence2"}).text_keys == Words{"sentence1", "sentence2"});
  for (const char* keys : {",a", "a,,b", "a,"})
    CHECK(error_of({"--text-keys", keys}) ==
          std::string("--text-keys ") + keys +
              ": has an empty name; write names with one comma between, such as sentence1,sentence2");
  CHECK(error_of({"--text-keys", "a,a"}) == "--text-keys a,a: names a twice; keep one");
  CHECK(error_of({"--text-keys", "text,label"}) ==
        "--text-keys text,label: label is no key of a text; name keys whose values are texts");
}

TEST_CASE("the options --pack and --chat-template take the names that the documentation has") {
  CHECK_FALSE(parse({}).pack);
  CHECK(parse({"--pack", "none"}).pack == Pack::none);
  CHECK(parse({"--pack", "isolated"}).pack == Pack::isolated);
  CHECK(parse({"--chat-template", "chatml"}).chat_template == "chatml");
  CHECK_THAT(error_of({"--pack", "packed"}), Catch::Matchers::StartsWith("--pack packed: "));
  CHECK_THAT(error_of({"--chat-template", "jinja"}), Catch::Matchers::StartsWith("--chat-template jinja: "));
}
