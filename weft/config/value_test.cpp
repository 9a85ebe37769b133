#include "weft/config/value.h"

#include <gtest/gtest.h>

#include "weft/config/hjson.h"
#include "weft/config/test_reading_impl.h"

namespace weft::config {
namespace {

Value parse(const std::string& text) { return parse_hjson(source_of(text)); }

TEST(Value, FindsByKeyAndByPath) {
  const Value root = parse(R"({"a": {"b": {"c": 3}}, "d": 4})");
  ASSERT_NE(find_path(root, "a.b.c"), nullptr);
  EXPECT_EQ(find_path(root, "a.b.c")->integer, 3);
  EXPECT_EQ(find_path(root, "d")->integer, 4);
  EXPECT_EQ(find_member_path(root, "a.b")->key, "b");
  EXPECT_EQ(root.find("x"), nullptr);
  for (const char* path : {"", "x", "a.x", "a.b.c.d", "d.a", "a.", ".a"})
    EXPECT_EQ(find_path(root, path), nullptr) << path;
}

TEST(ToJson, IsOneLineThatReadsBackTheSame) {
  const std::string text =
      R"({"a": [1, -2.5, true, null, 12345678901.0, 1e-05, 1e+300], "b": {"c": "q\"\\\n\u0001é"}, "e": [], "f": {}})";
  EXPECT_EQ(to_json(parse(text)), text);
}

TEST(KindName, FitsASentence) {
  EXPECT_EQ(kind_name(Kind::kInt), "an integer");
  EXPECT_EQ(kind_name(Kind::kObject), "an object");
}

}  // namespace
}  // namespace weft::config
