#include "weft/plan/parameter_table.h"

#include <gtest/gtest.h>

#include "weft/plan/example_tables_impl.h"

namespace weft::plan {
namespace {

struct BadTable {
  std::vector<Parameter> parameters;
  std::string title, what;
};

void expect_refused(const BadTable& bad) {
  try {
    const ParameterTable table(bad.parameters);
    ADD_FAILURE() << "not refused: " << bad.title;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(error.text().title, bad.title);
    EXPECT_NE(error.text().what.find(bad.what), std::string::npos) << error.what();
    EXPECT_FALSE(error.text().fix.empty()) << bad.title;
  }
}

TEST(ParameterTable, CountsTiedParametersOnce) {
  const ParameterTable table = toy_table();
  EXPECT_EQ(table.size(), 6);
  EXPECT_EQ(table.num_elements(), 80 + 64 + 8 + 8 + 1);
  EXPECT_EQ(table.num_elements(5), 80);
  EXPECT_EQ(table.owner(5), 0);
  EXPECT_EQ(table.owner(3), 3);
  EXPECT_EQ(table.trainable(), (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(table.frozen().empty());
}

TEST(ParameterTable, TellsFrozenFromTrainable) {
  const ParameterTable table({{.name = "base", .shape = {4}, .frozen = true},
                              {.name = "adapter", .shape = {2}},
                              {.name = "again", .shape = {4}, .frozen = true, .tied_to = 0}});
  EXPECT_EQ(table.trainable(), std::vector<int>{1});
  EXPECT_EQ(table.frozen(), std::vector<int>{0});
}

TEST(ParameterTable, AScalarHasOneElementAndAnEmptyShapeNone) {
  EXPECT_EQ(elements_of({}), 1);
  EXPECT_EQ(elements_of({3, 0, 5}), 0);
  EXPECT_EQ(elements_of({3, 4, 5}), 60);
}

TEST(ParameterTable, ShapesThatOverflowAreNoShapes) {
  EXPECT_EQ(elements_of({kMaxElements}), kMaxElements);
  EXPECT_EQ(elements_of({kMaxElements, 2}), std::nullopt);
  EXPECT_EQ(elements_of({INT64_MAX, INT64_MAX}), std::nullopt);
  EXPECT_EQ(elements_of({4'294'967'296, 4'294'967'296}), std::nullopt);
  EXPECT_EQ(elements_of({INT64_MAX, INT64_MAX, 0}), 0);
  EXPECT_EQ(elements_of({INT64_MIN}), std::nullopt);
  EXPECT_EQ(elements_of({0, -1}), std::nullopt);
}

TEST(ParameterTable, TypesHaveNamesAndWidths) {
  const std::pair<std::string_view, int64_t> expected[] = {{"fp16", 2}, {"bf16", 2}, {"fp32", 4}, {"fp64", 8}};
  for (size_t i = 0; i < std::size(expected); ++i) {
    EXPECT_EQ(name_of(kAllDtypes[i]), expected[i].first);
    EXPECT_EQ(bytes_of(kAllDtypes[i]), expected[i].second);
    EXPECT_EQ(dtype_named(expected[i].first), kAllDtypes[i]);
  }
  EXPECT_EQ(dtype_named("int8"), std::nullopt);
  EXPECT_EQ(dtype_named(""), std::nullopt);
}

TEST(ParameterTable, RefusesWhatIsNotSound) {
  const Parameter a{.name = "a", .shape = {4}};
  const BadTable cases[] = {
      {{}, "the model has no parameters", "empty"},
      {std::vector<Parameter>(kMaxParameters + 1), "the model has too many parameters", "1048577"},
      {{a, a}, "two parameters have the same name", "'a' is parameter 0 and 1"},
      {{{.name = "a\nb"}}, "a parameter's name cannot be printed", "parameter 0"},
      {{{.name = "\xFF"}}, "a parameter's name cannot be printed", "parameter 0"},
      {{{.name = std::string(kMaxNameBytes + 1, 'x')}}, "a parameter's name cannot be printed", "4097 bytes"},
      {{{.name = "b", .shape = {3, -1}}}, "a parameter has an impossible shape", "parameter 0 'b' has shape [3, -1]"},
      {{{.name = "b", .shape = {INT64_MAX, 8}}}, "a parameter has an impossible shape", "[9223372036854775807, 8]"},
      {{{.name = "b", .shape = std::vector<int64_t>(65, 1)}}, "a parameter has an impossible shape", "'b'"},
      {{a, {.name = "b", .shape = {kMaxElements}}}, "the model is too large", "parameter 1 'b'"},
      {{a, {.name = "b", .shape = {4}, .tied_to = 1}}, "a parameter is tied to none before it", "parameter 1 'b'"},
      {{a, {.name = "b", .shape = {4}, .tied_to = -1}}, "a parameter is tied to none before it", "to parameter -1"},
      {{a, {.name = "b", .shape = {4}, .tied_to = 0}, {.name = "c", .shape = {4}, .tied_to = 1}},
       "a parameter is tied to one that is tied itself",
       "parameter 2 'c' is tied to parameter 1 'b'"},
      {{a, {.name = "b", .shape = {5}, .tied_to = 0}}, "tied parameters differ", "fp32[5], parameter 0 'a' is fp32[4]"},
      {{a, {.name = "b", .shape = {4}, .dtype = Dtype::kBf16, .tied_to = 0}}, "tied parameters differ", "bf16[4]"},
      {{a, {.name = "b", .shape = {4}, .frozen = true, .tied_to = 0}}, "tied parameters differ", "frozen"},
  };
  for (const BadTable& bad : cases) expect_refused(bad);
}

TEST(ParameterTable, TiedParametersDoNotCountTowardsTheLimit) {
  const ParameterTable table(
      {{.name = "a", .shape = {kMaxElements}}, {.name = "b", .shape = {kMaxElements}, .tied_to = 0}});
  EXPECT_EQ(table.num_elements(), kMaxElements);
}

TEST(ParameterTable, NamesMayBeInAnyScript) {
  const ParameterTable table({{.name = "嵌入 weight", .shape = {1}}});
  EXPECT_EQ(parameter_text(0, table[0].name), "parameter 0 '嵌入 weight'");
}

}  // namespace
}  // namespace weft::plan
