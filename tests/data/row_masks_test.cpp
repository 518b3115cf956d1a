// Lists in a row that say which of its ids count.
#include "catch.hpp"
#include "core/error.hpp"
#include "data/input_error.hpp"
#include "data/open_dataset.hpp"
#include "data/rows/jsonl_row.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using Catch::Matchers::StartsWith;

namespace {

using Ids = std::vector<std::int32_t>;

DatasetOptions masks_options(const std::filesystem::path& file) {
  DatasetOptions options;
  options.inputs = {{file, std::nullopt}};
  options.vocabulary = 300;
  return options;
}

// Returns the first row's sample, parsed as a whole and, in a longer row, as a stream.
Sample masked_sample(const std::string& row, std::int64_t classes = 0) {
  const TempFolder folder;
  Sample samples[2];
  for (const bool is_long : {false, true}) {
    const std::string filler = is_long ? R"(, "meta": ")" + std::string(longest_parsed_row, 'x') + "\"}" : "}";
    DatasetOptions options = masks_options(folder.write("rows.jsonl", row.substr(0, row.size() - 1) + filler));
    options.classes = classes;
    const auto data = open_dataset(options);
    data->read(0, samples[is_long]);
    CHECK(data->measure(0).ids == std::ssize(samples[is_long].ids));
    CHECK(data->measure(0).counted ==
          std::count_if(samples[is_long].labels.begin(), samples[is_long].labels.end(), [](auto label) { return label >= 0; }));
  }
  CHECK(samples[0].ids == samples[1].ids);
  CHECK(samples[0].labels == samples[1].labels);
  return samples[0];
}

std::string masks_error(const std::string& row, std::int64_t classes = 0) {
  const TempFolder folder;
  DatasetOptions options = masks_options(folder.write("rows.jsonl", row));
  options.classes = classes;
  return test::input_error(folder, [&] { open_dataset(options); });
}

}  // namespace

TEST_CASE("padding that an attention mask marks is not part of a row") {
  for (const char* row :
       {R"({"input_ids": [5, 3, 7, 0, 0], "attention_mask": [1, 1, 1, 0, 0]})",
        R"({"attention_mask": [1, 1, 1, 0, 0], "input_ids": [5, 3, 7, 0, 0]})",
        R"({"input_ids": [5, 3, 7, 0], "labels": [5, 3, 7, -100], "attention_mask": [true, true, true, false]})",
        R"({"input_ids": [5, 3, 7, 0], "attention_mask": [1, 1, 1, 0], "position_ids": [0, 1, 2, 1]})",
        R"({"input_ids": [5, 3, 7, 0], "attention_mask": [1, 1, 1, 0], "loss_mask": [1, 1, 1, 0],)"
        R"( "token_type_ids": [0, 0, 0, 0], "special_tokens_mask": [0, 0, 0, 1]})"}) {
    INFO(row);
    const Sample sample = masked_sample(row);
    CHECK(sample.ids == Ids{5, 3});
    CHECK(sample.labels == Ids{3, 7});
  }
  const Sample classified = masked_sample(R"({"input_ids": [5, 3, 0, 0], "attention_mask": [1, 1, 0, 0], "label": 2})", 3);
  CHECK(classified.ids == Ids{5, 3});
  CHECK(classified.labels == Ids{not_counted, 2});
}

TEST_CASE("ids in the padding may be any, and those before it may not") {
  const Sample sample = masked_sample(R"({"input_ids": [5, 3, 7, -1, 70000], "attention_mask": [1, 1, 1, 0, 0]})");
  CHECK(sample.ids == Ids{5, 3});
  CHECK(sample.labels == Ids{3, 7});
  CHECK(masked_sample(R"({"attention_mask": [1, 1, 0], "input_ids": [5, 3, 18446744073709551615]})").labels == Ids{3});
  CHECK_THAT(masks_error(R"({"input_ids": [5, 300, 7, 301], "attention_mask": [1, 1, 1, 0]})"),
             StartsWith("rows.jsonl:1: input_ids[1] is 300, outside the model's vocabulary"));
  CHECK_THAT(masks_error(R"({"labels": [5, 300, -100], "input_ids": [5, 3, 301], "attention_mask": [1, 1, 0]})"),
             StartsWith("rows.jsonl:1: labels[1] is 300, outside the model's vocabulary"));
}

TEST_CASE("labels that a completion mask or an assistant's masks leave out do not count") {
  constexpr std::int32_t no = not_counted;
  CHECK(masked_sample(R"({"input_ids": [5, 3, 7, 9], "completion_mask": [0, 0, 1, 1]})").labels == Ids{no, 7, 9});
  CHECK(masked_sample(R"({"assistant_masks": [0, 1, 0, 1], "input_ids": [5, 3, 7, 9]})").labels == Ids{3, no, 9});
  CHECK(masked_sample(R"({"input_ids": [5, 3, 7, 9], "completion_mask": [0, 0, 1, 1], "assistant_masks": [0, 1, 1, 0]})")
            .labels == Ids{no, 7, no});
  CHECK(masked_sample(R"({"input_ids": [5, 3, 7, 9], "labels": [-100, 3, 7, -100], "completion_mask": [0, 0, 1, 1]})").labels ==
        Ids{no, 7, no});
  CHECK(
      masked_sample(R"({"input_ids": [5, 3, 7, 9, 0], "completion_mask": [0, 0, 1, 1, 0], "attention_mask": [1, 1, 1, 1, 0]})")
          .labels == Ids{no, 7, 9});
}

TEST_CASE("rows whose labels are left out differently are different data") {
  const TempFolder folder;
  const auto content = [&](const char* row) { return open_dataset(masks_options(folder.write("a.jsonl", row)))->content(); };
  const auto whole = content(R"({"input_ids": [5, 3, 7, 9]})");
  CHECK(content(R"({"input_ids": [5, 3, 7, 9], "completion_mask": [1, 1, 1, 1]})") == whole);
  CHECK(content(R"({"input_ids": [5, 3, 7, 9, 0], "attention_mask": [1, 1, 1, 1, 0]})") == whole);
  CHECK(content(R"({"input_ids": [5, 3, 7, 9], "completion_mask": [0, 0, 1, 1]})") != whole);
}

TEST_CASE("masks that say nothing pass") {
  const Sample sample = masked_sample(
      R"({"input_ids": [5, 3, 7], "attention_mask": [1, 1, 1], "completion_mask": [1, 1, 1], "assistant_masks": [1, 1, 1],)"
      R"( "loss_mask": [1, 1, 1], "position_ids": [0, 1, 2], "token_type_ids": [0, 0, 0], "special_tokens_mask": [1, 1, 1]})");
  CHECK(sample.ids == Ids{5, 3});
  CHECK(sample.labels == Ids{3, 7});
}

TEST_CASE("unsupported masks are refused with the index at which they differ from the default") {
  const auto ids = [](const char* more) { return masks_error(std::string(R"({"input_ids": [5, 3, 7, 9], )") + more + "}"); };
  CHECK_THAT(ids(R"("attention_mask": [0, 0, 1, 1])"),
             StartsWith("rows.jsonl:1: attention_mask[0] is 0 and attention_mask[2], after it, is 1; only padding at the end"));
  CHECK_THAT(ids(R"("attention_mask": [1, 0, 1, 1])"),
             StartsWith("rows.jsonl:1: attention_mask[1] is 0 and attention_mask[2]"));
  CHECK_THAT(ids(R"("attention_mask": [1, 1, 2, 2])"), StartsWith("rows.jsonl:1: attention_mask[2] is 2, not 0 or 1"));
  CHECK_THAT(ids(R"("attention_mask": [[1, 1, 1, 1]])"),
             StartsWith("rows.jsonl:1: attention_mask[0] is [1,1,1,1], not 0 or 1"));
  CHECK_THAT(ids(R"("attention_mask": [0, 0, 0, 0])"), StartsWith("rows.jsonl:1: \"attention_mask\" leaves nothing"));
  CHECK_THAT(ids(R"("attention_mask": [1, 1, 1])"),
             StartsWith("rows.jsonl:1: \"attention_mask\" has 3 values for 4 input_ids"));
  CHECK_THAT(ids(R"("attention_mask": 1)"), StartsWith("rows.jsonl:1: \"attention_mask\" is not an array"));
  CHECK_THAT(ids(R"("attention_mask": [1, 0, 0, 0])"), StartsWith("rows.jsonl:1: a sample needs at least 2 tokens"));
  CHECK_THAT(ids(R"("attention_mask": [1, 1, 1, 0], "labels": [5, 3, 7, 9])"),
             StartsWith("rows.jsonl:1: labels[3] counts, though attention_mask[3] is 0"));
  CHECK_THAT(ids(R"("completion_mask": [0, 0, 0.5, 1])"), StartsWith("rows.jsonl:1: completion_mask[2] is 0.5, not 0 or 1"));
  CHECK_THAT(ids(R"("completion_mask": [1, 0, 0, 0])"), StartsWith("rows.jsonl:1: no label of this row counts"));
  CHECK_THAT(ids(R"("loss_mask": [0, 0, 1, 1])"), StartsWith("rows.jsonl:1: loss_mask[0] is 0; some programs apply it"));
  CHECK_THAT(ids(R"("position_ids": [0, 1, 0, 1])"), StartsWith("rows.jsonl:1: position_ids[2] is 0, not 2"));
  CHECK_THAT(ids(R"("position_ids": [0, 1, 2.5, 3])"),
             StartsWith("rows.jsonl:1: position_ids[2] is 2.5, not an integer of 64 bits"));
  CHECK_THAT(ids(R"("position_ids": [1, 2, 3, 4])"), StartsWith("rows.jsonl:1: position_ids[0] is 1, not 0"));
  CHECK_THAT(ids(R"("token_type_ids": [0, 0, 1, 1])"), StartsWith("rows.jsonl:1: token_type_ids[2] is 1; types of tokens"));
  CHECK_THAT(ids(R"("special_tokens_mask": [1, 0, 0, 1])"), StartsWith("rows.jsonl:1: special_tokens_mask[0] is 1; special"));
  CHECK_THAT(masks_error(R"({"text": "abc", "attention_mask": [1, 1, 1]})"),
             StartsWith("rows.jsonl:1: this row has \"attention_mask\", but no \"input_ids\""));
  CHECK_THAT(masks_error(R"({"input_ids": [5, 3], "completion_mask": [0, 1], "label": 1})", 3),
             StartsWith("rows.jsonl:1: \"completion_mask\" goes with labels that are tokens"));
}
