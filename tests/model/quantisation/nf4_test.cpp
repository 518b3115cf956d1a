// nf4 and fp8 as the host makes them: nf4 against bitsandbytes' numbers (tests/golden/bitsandbytes/make_nf4.py), and slices
// against whole matrices.

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "catch.hpp"
#include "core/error.hpp"
#include "core/half.hpp"
#include "model/quantisation/fnv.hpp"
#include "model/quantisation/nf4.hpp"
#include "model/quantisation/quantise.hpp"
#include "model/weights/raw_folder.hpp"
#include "ops/float8.hpp"

namespace pipetrain::test {
namespace {

// The numbers that make_nf4.py draws.
std::vector<float> drawn_values(std::size_t count, std::uint64_t state) {
  std::vector<float> values(count);
  for (float& value : values) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const auto uniform = static_cast<float>(static_cast<double>(state >> 40) / 8388608.0 - 1);
    value = uniform * uniform * uniform;
  }
  return values;
}

Parameter whole_parameter(std::int64_t rows, std::int64_t columns) {
  Parameter whole;
  whole.name = "w";
  whole.full = whole.local = {rows, columns};
  return whole;
}

struct QuantisedSlice {
  QuantisedLayout layout;
  std::vector<std::byte> bytes;

  QuantisedSlice(const Parameter& slice, WeightForm form, std::span<const float> whole)
      : layout(quantised_layout_of(slice, form)), bytes(layout.bytes) {
    quantise(layout, whole, bytes.data());
  }
  QuantisedMatrix view() { return {layout, bytes.data()}; }
  std::vector<float> values() {
    std::vector<float> all(static_cast<std::size_t>(layout.runs.elements()));
    read_values(view(), 0, layout.runs.elements(), all.data());
    return all;
  }
};

template <class T>
std::vector<T> numbers_at(const T* data, std::int64_t count) {
  return {data, data + count};
}

}  // namespace

TEST_CASE("the values of a scale's code are those of bitsandbytes", "[quantisation]") {
  const auto numbers = nlohmann::json::parse(std::ifstream(golden_folder("bitsandbytes") / "numbers.json"));
  CHECK(fnv(std::span<const float>(nf4_scale_values())) == numbers.at("map").get<std::string>());
}

TEST_CASE("nf4 has the codes, scales and values of bitsandbytes, with and without double quantisation", "[quantisation]") {
  const auto numbers = nlohmann::json::parse(std::ifstream(golden_folder("bitsandbytes") / "numbers.json"));
  for (const auto& one : numbers.at("cases")) {
    const auto text = [&](const char* key) { return one.at(key).get<std::string>(); };
    const std::int64_t rows = one.at("rows"), columns = one.at("columns"), blocks = (rows * columns + 63) / 64;
    INFO(rows << " x " << columns);
    const std::vector<float> whole =
        drawn_values(static_cast<std::size_t>(rows * columns), one.at("seed").get<std::uint64_t>());
    QuantisedSlice twice(whole_parameter(rows, columns), WeightForm::nf4, whole),
        once(whole_parameter(rows, columns), WeightForm::nf4_scales, whole);
    CHECK(fnv(numbers_at(twice.view().codes(), rows * columns / 2)) == text("codes"));
    CHECK(fnv(numbers_at(twice.view().scale_codes(), blocks)) == text("scale_codes"));
    CHECK(fnv(numbers_at(twice.view().scales(), twice.layout.scale_groups())) == text("group_scales"));
    CHECK(twice.view().tables()[nf4_levels + nf4_scale_map] == one.at("mean").get<float>());
    CHECK(fnv(twice.values()) == text("values"));
    CHECK(fnv(numbers_at(once.view().scales(), blocks)) == text("scales"));
    CHECK(fnv(once.values()) == text("values_single"));
    std::vector<std::uint16_t> rounded;
    for (const float value : twice.values()) rounded.push_back(to_bf16(value));
    CHECK(fnv(rounded) == text("values_bf16"));
  }
}

TEST_CASE("a slice has the values that the whole matrix has there", "[quantisation]") {
  constexpr std::int64_t rows = 160, columns = 192;
  const std::vector<float> whole = drawn_values(rows * columns, 7);
  for (const WeightForm form : {WeightForm::bf16, WeightForm::fp8, WeightForm::nf4, WeightForm::nf4_scales}) {
    for (const bool transposed : {false, true}) {
      Parameter all = whole_parameter(rows, columns);
      if (transposed) all.full = {columns, rows};
      all.transposed = transposed;
      const std::vector<float> expected = QuantisedSlice(all, form, whole).values();
      for (const bool by_rows : {true, false}) {
        for (std::int64_t part = 0; part < 3; ++part) {
          Parameter slice = all;
          slice.split_axis = by_rows == transposed ? 1 : 0;
          slice.local = by_rows ? Shape{50, columns} : Shape{rows, 64};
          slice.begin = part * (by_rows ? 50 : 64);
          INFO("form " << static_cast<int>(form) << ", transposed " << transposed << ", rows " << by_rows << ", part " << part);
          const std::vector<float> values = QuantisedSlice(slice, form, whole).values();
          std::vector<float> same;
          for (std::int64_t row = 0; row < slice.local[0]; ++row) {
            for (std::int64_t col = 0; col < slice.local[1]; ++col) {
              const std::int64_t at = (row + (by_rows ? slice.begin : 0)) * columns + col + (by_rows ? 0 : slice.begin);
              same.push_back(expected[static_cast<std::size_t>(at)]);
            }
          }
          CHECK((values == same));
        }
      }
    }
  }
}

TEST_CASE("quantised values are within the form's step of the values", "[quantisation]") {
  constexpr std::int64_t rows = 130, columns = 256;
  const std::vector<float> whole = drawn_values(rows * columns, 11);
  const auto worst = [&](WeightForm form) {  // relative to the largest magnitude of the value's block of 64
    const std::vector<float> values = QuantisedSlice(whole_parameter(rows, columns), form, whole).values(),
                             scales = nf4_scales_of(whole);
    float error = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) error = std::max(error, std::fabs(values[i] - whole[i]) / scales[i / 64]);
    return error;
  };
  CHECK(worst(WeightForm::bf16) <= 0x1p-8F);
  CHECK(worst(WeightForm::nf4_scales) <= 0.1520F);  // half the largest distance between two levels
  CHECK(worst(WeightForm::nf4) < 0.17F);
  CHECK(worst(WeightForm::fp8) <= 0x1p-4F);
}

TEST_CASE("a matrix of zeros stays one", "[quantisation]") {
  const std::vector<float> zeros(64 * 128, 0.0F);
  for (const WeightForm form : {WeightForm::bf16, WeightForm::fp8, WeightForm::nf4, WeightForm::nf4_scales})
    CHECK((QuantisedSlice(whole_parameter(64, 128), form, zeros).values() == zeros));
}

TEST_CASE("columns that divide blocks of nf4 are refused, and fp8 takes them", "[quantisation]") {
  Parameter slice = whole_parameter(64, 192);
  slice.split_axis = 1;
  slice.local = {64, 96};
  CHECK_THROWS_WITH(quantised_layout_of(slice, WeightForm::nf4), Catch::Contains("use a smaller tp, or fp8"));
  CHECK_NOTHROW(quantised_layout_of(slice, WeightForm::fp8));
}

TEST_CASE("e4m3 rounds to nearest, ties to even, and returns its own values", "[quantisation]") {
  for (unsigned bits = 0; bits < 256; ++bits) {
    const float value = from_e4m3(static_cast<std::uint8_t>(bits));
    if (std::isnan(value)) continue;
    CHECK(to_e4m3(value) == bits);
  }
  CHECK(from_e4m3(0x7e) == largest_e4m3);
  CHECK(from_e4m3(0x01) == 0x1p-9F);
  CHECK(to_e4m3(464.0F) == 0x7e);
  CHECK(std::isnan(from_e4m3(to_e4m3(465.0F))));
  for (unsigned bits = 0; bits < 0x7e; ++bits) {
    const float low = from_e4m3(static_cast<std::uint8_t>(bits)), high = from_e4m3(static_cast<std::uint8_t>(bits + 1));
    const float middle = (low + high) / 2;
    CHECK(to_e4m3(middle) == bits + bits % 2);
    CHECK(to_e4m3(std::nextafter(middle, high)) == bits + 1);
    CHECK(to_e4m3(-std::nextafter(middle, low)) == (0x80U | bits));
  }
}

}  // namespace pipetrain::test
