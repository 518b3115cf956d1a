#include "apps/options/data_options.hpp"

#include "apps/options/train_options.hpp"
#include "catch.hpp"
#include "core/error.hpp"

using namespace pipetrain;

namespace {

using Words = std::vector<std::string>;

DataSettings parse_data(const Words& arguments) { return parse_train_options(arguments, {}, {0, 8}).run.data; }

std::string data_error(const Words& arguments) {
  try {
    parse_data(arguments);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error_line(error);
  }
  return "no error";
}

}  // namespace

TEST_CASE("the parts of a text are those of --text-keys in their order") {
  CHECK_FALSE(parse_data({}).text_keys.chosen);
  CHECK(parse_data({"--text-keys", "sentence1,sentence2"}).text_keys.names == Words{"sentence1", "sentence2"});
  for (const char* keys : {",a", "a,,b", "a,"})
    CHECK(data_error({"--text-keys", keys}) ==
          std::string("--text-keys ") + keys +
              ": has an empty name; write names with one comma between, such as sentence1,sentence2");
  CHECK(data_error({"--text-keys", "a,a"}) == "--text-keys a,a: names a twice; keep one");
  CHECK(data_error({"--text-keys", "text,label"}) ==
        "--text-keys text,label: label is no key of a text; name keys whose values are texts");
}

TEST_CASE("the options --pack and --chat-template take the names that the documentation has") {
  CHECK_FALSE(parse_data({}).pack);
  CHECK(parse_data({"--pack", "none"}).pack == Pack::none);
  CHECK(parse_data({"--pack", "isolated"}).pack == Pack::isolated);
  CHECK(parse_data({"--chat-template", "chatml"}).chat_template == "chatml");
  CHECK_THAT(data_error({"--pack", "packed"}), Catch::Matchers::StartsWith("--pack packed: "));
  CHECK_THAT(data_error({"--chat-template", "jinja"}), Catch::Matchers::StartsWith("--chat-template jinja: "));
}
