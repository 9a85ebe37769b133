#include "weft/config/edit.h"

#include <gtest/gtest.h>

#include <vector>

#include "weft/config/yaml.h"

namespace weft::config {
namespace {

Edit set(std::string path, std::string literal) { return {Edit::Kind::kSet, std::move(path), "", std::move(literal)}; }
Edit remove(std::string path) { return {Edit::Kind::kRemove, std::move(path)}; }
Edit rename(std::string path, std::string to) { return {Edit::Kind::kRename, std::move(path), std::move(to)}; }
Edit move(std::string path, std::string to) { return {Edit::Kind::kMove, std::move(path), std::move(to)}; }

constexpr std::string_view kRefused = "(refused)";

std::string edited(const std::string& name, std::string_view before, const Edit& edit) {
  const Document document = parse_document(checked_source(name, std::string(before)));
  return apply_edit(document, edit).value_or(std::string(kRefused));
}

struct Case {
  std::string_view before;
  Edit edit;
  std::string_view after;
};

void check(const std::string& name, const std::vector<Case>& cases) {
  for (const auto& [before, edit, after] : cases) EXPECT_EQ(edited(name, before, edit), after) << "from:\n" << before;
}

TEST(EditHjson, SetReplacesTheValueAndNothingElse) {
  check("a.json",
        {
            {R"({"a": 1, "b": 2})", set("a", "3"), R"({"a": 3, "b": 2})"},
            {R"({"a":{"b":[1,2]}})", set("a.b", "\"auto\""), R"({"a":{"b":"auto"}})"},
            {"{\n  \"a\" : 1 , // one\n  'b': 'x' # two\n}\n", set("b", "5e8"),
             "{\n  \"a\" : 1 , // one\n  'b': 5e8 # two\n}\n"},
            {"{\"a\": {\n  \"b\": 1 // gone\n}, \"c\": 2}", set("a", "null"), "{\"a\": null, \"c\": 2}"},
            {"{a: '''\n  long\n  text\n  ''', b: 1}", set("a", "\"short\""), "{a: \"short\", b: 1}"},
            {"\xEF\xBB\xBF{\"a\": 1}", set("a", "2"), "\xEF\xBB\xBF{\"a\": 2}"},
            {"{\"训练\": \"值\", \"b\": \"é\" /* 注释 */}", set("b", "\"好\""),
             "{\"训练\": \"值\", \"b\": \"好\" /* 注释 */}"},
            {"{\r\n\t\"a\": 1,\r\n\t\"b\": 2\r\n}\r\n", set("a", "true"), "{\r\n\t\"a\": true,\r\n\t\"b\": 2\r\n}\r\n"},
            {R"({"a": "x" "b": 2})", set("a", "1"), R"({"a": 1, "b": 2})"},
        });
}

TEST(EditHjson, SetKeepsWhatAQuotelessStringSwallowed) {
  check("a.json", {
                      {"{\n  \"a\": True,\n  \"b\": 1\n}", set("a", "true"), "{\n  \"a\": true,\n  \"b\": 1\n}"},
                      {"{\n  \"a\": True\n}", set("a", "true"), "{\n  \"a\": true\n}"},
                      {"{\n  a: cpu # where\n  b: 1\n}", set("a", "\"none\""), "{\n  a: \"none\" # where\n  b: 1\n}"},
                      {"{\n  a: True, // on\n  b: 1\n}", set("a", "true"), "{\n  a: true, // on\n  b: 1\n}"},
                      {"{\n  a: no /* off */\n  b: 1\n}", set("a", "false"), "{\n  a: false /* off */\n  b: 1\n}"},
                      {"a: one, two, three", set("a", "1"), "a: 1"},
                      {"{\r\n  \"a\": False,\r\n}", set("a", "false"), "{\r\n  \"a\": false,\r\n}"},
                  });
}

TEST(EditHjson, SetAddsAsTheSiblingsAreWritten) {
  check(
      "a.json",
      {
          {"{\n  \"a\": 1\n}\n", set("b", "2"), "{\n  \"a\": 1,\n  \"b\": 2\n}\n"},
          {"{\n\t\"a\": 1, // one\n\t\"b\": 2 // two\n\t// end\n}", set("c", "3"),
           "{\n\t\"a\": 1, // one\n\t\"b\": 2, // two\n\t\"c\": 3\n\t// end\n}"},
          {"{\n  \"a\": 1, # keep\n}", set("b", "2"), "{\n  \"a\": 1, # keep\n  \"b\": 2,\n}"},
          {"{\n  \"a\": 1 /* over\n  lines */\n}", set("b", "2"), "{\n  \"a\": 1, /* over\n  lines */\n  \"b\": 2\n}"},
          {"{\r\n    \"a\": 1\r\n}\r\n", set("b", "[1, 2]"), "{\r\n    \"a\": 1,\r\n    \"b\": [1, 2]\r\n}\r\n"},
          {R"({"a": 1})", set("b", "2"), R"({"a": 1, "b": 2})"},
          {R"({"a":1,"b":2})", set("c", "3"), R"({"a":1,"b":2,"c":3})"},
          {R"({ "a" : 1, "b" : 2, })", set("c", "3"), R"({ "a" : 1, "b" : 2, "c" : 3, })"},
          {R"({"a": 1 /* one */})", set("b", "2"), R"({"a": 1, /* one */ "b": 2})"},
          {"{ \"a\": 1 // one\n}", set("b", "2"), "{ \"a\": 1, \"b\": 2 // one\n}"},
          {"{\"a\": 1,\n \"b\": 2}", set("c", "3"), "{\"a\": 1,\n \"b\": 2,\n \"c\": 3}"},
          {"{\n  a: 1\n  b: 2\n}", set("c", "3"), "{\n  a: 1\n  b: 2\n  c: 3\n}"},
          {"{\n  a: 1\n  b: text\n}", set("c.d", "3"), "{\n  a: 1\n  b: text\n  c: {\n    d: 3\n  }\n}"},
          {"{\n  a: 1\n  b: 2\n}", set("odd key", "3"), "{\n  a: 1\n  b: 2\n  \"odd key\": 3\n}"},
          {"a: 1\nb: 2 # two\n", set("c", "3"), "a: 1\nb: 2 # two\nc: 3\n"},
          {"a: 1\nb: 2", set("c", "3"), "a: 1\nb: 2\nc: 3"},
          {"{\n  \"a\": True,\n  \"b\": off\n}", set("c", "3"), "{\n  \"a\": True,\n  \"b\": off\n  \"c\": 3\n}"},
      });
}

TEST(EditHjson, SetMakesTheParentsThatAreMissing) {
  check("a.json", {
                      {"{\n  \"a\": 1\n}", set("z.o.device", "\"cpu\""),
                       "{\n  \"a\": 1,\n  \"z\": {\n    \"o\": {\n      \"device\": \"cpu\"\n    }\n  }\n}"},
                      {R"({"a": 1})", set("z.o", "{\"x\": 1}"), R"({"a": 1, "z": {"o": {"x": 1}}})"},
                      {"{\n\t\"z\": {\n\t\t\"stage\": 3\n\t},\n\t\"a\": 1\n}", set("z.o.p", "1"),
                       "{\n\t\"z\": {\n\t\t\"stage\": 3,\n\t\t\"o\": {\n\t\t\t\"p\": 1\n\t\t}\n\t},\n\t\"a\": 1\n}"},
                      {R"({"a": 1})", set("a.b", "2"), kRefused},
                      {R"({"a": [1]})", set("a.b.c", "2"), kRefused},
                  });
}

TEST(EditHjson, SetFillsAnEmptyObject) {
  check("a.json", {
                      {"{}", set("a", "1"), "{\n  \"a\": 1\n}"},
                      {"{\n    \"a\": 1,\n    \"z\": {}\n}", set("z.s", "3"),
                       "{\n    \"a\": 1,\n    \"z\": {\n        \"s\": 3\n    }\n}"},
                      {"{\n    \"z\": {}, // zero\n    \"a\": 1\n}", set("z.s", "3"),
                       "{\n    \"z\": {\n        \"s\": 3\n    }, // zero\n    \"a\": 1\n}"},
                      {R"({"z": {}, "a": 1})", set("z.s", "3"), R"({"z": {"s": 3}, "a": 1})"},
                      {"{\n  \"z\": {\n    // nothing yet\n  }\n}", set("z.s", "3"),
                       "{\n  \"z\": {\n    // nothing yet\n    \"s\": 3\n  }\n}"},
                      {"{\n  z: { }\n}", set("z.s", "3"), "{\n  z: {\n    s: 3\n  }\n}"},
                  });
}

TEST(EditHjson, RemoveTakesTheCommaTheCommentAndTheLine) {
  check("a.json",
        {
            {"{\n  \"a\": 1, // one\n  // about b\n  \"b\": 2, // two\n  \"c\": 3\n}", remove("b"),
             "{\n  \"a\": 1, // one\n  // about b\n  \"c\": 3\n}"},
            {"{\n  \"a\": 1, // one\n  \"b\": 2\n}", remove("b"), "{\n  \"a\": 1 // one\n}"},
            {"{\n  \"a\": 1,\n  \"b\": 2,\n}", remove("b"), "{\n  \"a\": 1,\n}"},
            {"{\r\n\t\"a\": 1,\r\n\t\"b\": {\r\n\t\t\"c\": 1\r\n\t}\r\n}\r\n", remove("b"), "{\r\n\t\"a\": 1\r\n}\r\n"},
            {"{\n  \"a\": {\n    \"x\": 1\n  }, /* of a */\n  \"b\": 2\n}", remove("a"), "{\n  \"b\": 2\n}"},
            {R"({"a": 1, "b": 2, "c": 3})", remove("a"), R"({"b": 2, "c": 3})"},
            {R"({"a": 1, "b": 2, "c": 3})", remove("b"), R"({"a": 1, "c": 3})"},
            {R"({"a": 1, "b": 2, "c": 3})", remove("c"), R"({"a": 1, "b": 2})"},
            {R"({ "a":1,"b":2 })", remove("b"), R"({ "a":1 })"},
            {R"({"a": 1, "b": 2, })", remove("b"), R"({"a": 1, })"},
            {"{\"a\": 1, // one\n \"b\": 2}", remove("a"), "{\n \"b\": 2}"},
            {"{\"a\": 1, // one\n \"b\": 2 }", remove("b"), "{\"a\": 1 // one\n }"},
            {"{\n  \"a\": 1\n, \"b\": 2\n}", remove("b"), "{\n  \"a\": 1\n}"},
            {"a: 1\nb: text, // of b\nc: 3\n", remove("b"), "a: 1\nc: 3\n"},
            {"{\n  \"a\": 1,\n  \"b\": False,\n  \"c\": 3\n}", remove("c"), "{\n  \"a\": 1,\n  \"b\": False,\n}"},
        });
}

TEST(EditHjson, RemovingTheOnlyMemberLeavesAnEmptyObject) {
  check("a.json",
        {
            {R"({"a": 1})", remove("a"), "{}"},
            {"{\n  \"a\": {\n    \"b\": 1 // one\n  }\n}", remove("a.b"), "{\n  \"a\": {}\n}"},
            {"{\n  \"a\": {\n    // why\n    \"b\": 1,\n  }\n}", remove("a.b"), "{\n  \"a\": {\n    // why\n  }\n}"},
            {R"({"a": 1})", remove("b"), kRefused},
            {R"({"a": 1})", remove("a.b"), kRefused},
            {R"({"a": 1})", remove(""), kRefused},
        });
}

TEST(EditHjson, RenameKeepsTheQuotes) {
  check("a.json", {
                      {R"({"a": 1})", rename("a", "b"), R"({"b": 1})"},
                      {"{'a': 1}", rename("a", "b"), "{'b': 1}"},
                      {"{'a': 1}", rename("a", "it's"), R"({"it's": 1})"},
                      {"{a: 1}", rename("a", "b"), "{b: 1}"},
                      {"{a: 1}", rename("a", "b c"), R"({"b c": 1})"},
                      {R"({"z": {"a" : 1 /* x */}})", rename("z.a", "名"), R"({"z": {"名" : 1 /* x */}})"},
                      {R"({"a": 1, "b": 2})", rename("a", "b"), kRefused},
                      {R"({"a": 1, "b": 2})", rename("a", ""), kRefused},
                  });
}

TEST(EditHjson, MoveCarriesTheAuthorsText) {
  check("a.json",
        {
            {"{\n  \"a\": 5e8, // half\n  \"z\": {\n    \"s\": 3\n  }\n}", move("a", "z.bucket"),
             "{\n  \"z\": {\n    \"s\": 3,\n    \"bucket\": 5e8\n  }\n}"},
            {"{\n  \"o\": {\n    // where\n    \"device\": \"cpu\"\n  },\n  \"z\": {\n    \"s\": 3\n  }\n}",
             move("o", "z.o"),
             "{\n  \"z\": {\n    \"s\": 3,\n    \"o\": {\n      // where\n      \"device\": \"cpu\"\n    }\n  }\n}"},
            {"{\n  \"z\": {\n    \"fp16\": {\n      \"on\": 1\n    }\n  }\n}", move("z.fp16", "fp16"),
             "{\n  \"z\": {},\n  \"fp16\": {\n    \"on\": 1\n  }\n}"},
            {R"({"a": 1, "b": 2})", move("a", "c"), R"({"c": 1, "b": 2})"},
            {R"({"a": 1, "b": 2})", move("a", "c.d"), R"({"b": 2, "c": {"d": 1}})"},
            {"{\n  a: cpu\n  z: {s: 3}\n}", move("a", "z.device"), "{\n  z: {s: 3, device: \"cpu\"}\n}"},
            {R"({"a": 1, "b": 2})", move("a", "b"), kRefused},
            {R"({"a": {}, "b": 2})", move("a", "a.c"), kRefused},
            {R"({"a": 1, "b": 2})", move("a", "b.c"), kRefused},
            {R"({"b": 2})", move("a", "c"), kRefused},
            {R"({"b": 2})", move("b", ".c"), kRefused},
            {R"({"b": 2})", move("b", ""), kRefused},
        });
}

TEST(EditHjson, RefusesALiteralThatIsNotOneJsonValue) {
  for (const char* literal : {"", "True", "1, \"b\": 2", "1 // x", " 1", "{", "}", "\"x", "1\n", "\xFF"})
    EXPECT_EQ(edited("a.json", R"({"a": 1})", set("a", literal)), kRefused) << literal;
}

TEST(EditYaml, SetReplacesScalarsAndFlow) {
  check("a.yaml",
        {
            {"zero_optimization:\n  stage: 2  # two\ntrain_batch_size: 8\n", set("zero_optimization.stage", "3"),
             "zero_optimization:\n  stage: 3  # two\ntrain_batch_size: 8\n"},
            {"train_batch_size: 8\nfp16: {enabled: yes}\n", set("fp16.enabled", "false"),
             "train_batch_size: 8\nfp16: {enabled: false}\n"},
            {"train_batch_size: 8\na: 'x'\n", set("a", "\"é\\n\""), "train_batch_size: 8\na: \"é\\n\"\n"},
            {"train_batch_size: 8\na:   # later\nb: 1\n", set("a", "2"), "train_batch_size: 8\na: 2   # later\nb: 1\n"},
            {"train_batch_size: 8\na: |\n  one\n  two\nb: 1\n", set("a", "2"), "train_batch_size: 8\na: 2\nb: 1\n"},
            {"train_batch_size: 8\na: 1\n", set("a", "{\"lr\": 1e-5, \"n\": [5e8, \"1e5\"]}"),
             "train_batch_size: 8\na: {\"lr\": 1.0e-5, \"n\": [500000000, \"1e5\"]}\n"},
        });
}

TEST(EditYaml, SetReplacesABlockByALiteral) {
  check("a.yaml", {
                      {"train_batch_size: 8\na:  # here\n  b: 1\n  c:\n    - 1\n    - 2\n\n# about d\nd: 1\n",
                       set("a", "\"auto\""), "train_batch_size: 8\na: \"auto\"  # here\n\n# about d\nd: 1\n"},
                      {"train_batch_size: 8\na:\n- 1\n- 2", set("a", "[]"), "train_batch_size: 8\na: []"},
                  });
}

TEST(EditYaml, SetAddsBehindTheLastSubtree) {
  check("a.yaml", {
                      {"train_batch_size: 8\n", set("a", "1"), "train_batch_size: 8\na: 1\n"},
                      {"train_batch_size: 8", set("a", "1"), "train_batch_size: 8\na: 1"},
                      {"zero_optimization:\n    stage: 2  # two\n    offload_param:\n        device: cpu\n\n# "
                       "end\ntrain_batch_size: 8\n",
                       set("zero_optimization.overlap_comm", "true"),
                       "zero_optimization:\n    stage: 2  # two\n    offload_param:\n        device: cpu\n    "
                       "overlap_comm: true\n\n# end\n"
                       "train_batch_size: 8\n"},
                      {"train_batch_size: 8\r\na:\r\n  - 1\r\n  - b: 2\r\n", set("z.o.device", "\"cpu\""),
                       "train_batch_size: 8\r\na:\r\n  - 1\r\n  - b: 2\r\nz:\r\n  o:\r\n    device: \"cpu\"\r\n"},
                      {"train_batch_size: 8\nfp16: {enabled: true}\n", set("fp16.loss_scale", "0"),
                       "train_batch_size: 8\nfp16: {enabled: true, loss_scale: 0}\n"},
                      {"train_batch_size: 8\nfp16: {}\n", set("fp16.enabled", "true"),
                       "train_batch_size: 8\nfp16: {enabled: true}\n"},
                      {"train_batch_size: 8\n", set("on", "1"), "train_batch_size: 8\n\"on\": 1\n"},
                      {"{\"train_batch_size\": 8}", set("a", "1"), "{\"train_batch_size\": 8, \"a\": 1}"},
                      {"{\n  train_batch_size: 8,  # eight\n  b: 1  # one\n}\n", set("a", "1"),
                       "{\n  train_batch_size: 8,  # eight\n  b: 1,  # one\n  a: 1\n}\n"},
                      {"train_batch_size: 8\na:\n", set("a.b", "1"), kRefused},
                  });
}

TEST(EditYaml, RemoveTakesTheSubtree) {
  check(
      "a.yaml",
      {
          {"a: 1\n# about z\nzero_optimization:  # zero\n  stage: 2\n  list:\n  - 1\n# about b\ntrain_batch_size: 2\n",
           remove("zero_optimization"), "a: 1\n# about z\n# about b\ntrain_batch_size: 2\n"},
          {"train_batch_size: 8\nz:\n  s: 1  # one\n", remove("z.s"), "train_batch_size: 8\nz: {}\n"},
          {"train_batch_size: 8\nz:\n  # why\n  s: 1\n", remove("z.s"), "train_batch_size: 8\nz:\n  # why\n  {}\n"},
          {"train_batch_size: 8\nz: {a: 1, b: 2}\n", remove("z.b"), "train_batch_size: 8\nz: {a: 1}\n"},
          {"train_batch_size: 8\nz: {a: 1}\n", remove("z.a"), "train_batch_size: 8\nz: {}\n"},
          {"train_batch_size: 8\na: 1", remove("a"), "train_batch_size: 8\n"},
      });
}

TEST(EditYaml, RenameAndMove) {
  check("a.yaml",
        {
            {"train_batch_size: 8\nstge: 1 # s\n", rename("stge", "stage"), "train_batch_size: 8\nstage: 1 # s\n"},
            {"train_batch_size: 8\n'a': 1\n", rename("a", "b"), "train_batch_size: 8\n'b': 1\n"},
            {"train_batch_size: 8\n\"a\": 1\n", rename("a", "名"), "train_batch_size: 8\n\"名\": 1\n"},
            {"offload:\n    # where\n    device: cpu\nzero_optimization:\n    stage: 3\n",
             move("offload", "zero_optimization.offload"),
             "zero_optimization:\n    stage: 3\n    offload:\n        # where\n        device: cpu\n"},
            {"o:\n  device: cpu\nzero_optimization: {stage: 3}\n", move("o", "zero_optimization.o"),
             "zero_optimization: {stage: 3, o: {\"device\": \"cpu\"}}\n"},
            {"lr: 5.0e-5\ntrain_batch_size: 8\n", move("lr", "optimizer.params.lr"),
             "train_batch_size: 8\noptimizer:\n  params:\n    lr: 5.0e-5\n"},
        });
}

TEST(EditYaml, WhatAnAliasStandsForIsNotEdited) {
  const std::string text = "a: &x {b: 1}\nc: *x\ntrain_batch_size: 8\n";
  EXPECT_EQ(edited("a.yaml", text, set("c.b", "2")), kRefused);
  EXPECT_EQ(edited("a.yaml", text, remove("c")), "a: &x {b: 1}\ntrain_batch_size: 8\n");
  EXPECT_EQ(edited("a.yaml", text, remove("a")), kRefused);
}

TEST(EditYaml, AConfigInsideATrainingConfig) {
  const std::string text = "model: m\ndeepspeed:\n  zero_optimization:\n    stage: 2\n# about lr\nlr: 1\n";
  EXPECT_EQ(edited("a.yaml", text, set("zero_optimization.stage", "3")),
            "model: m\ndeepspeed:\n  zero_optimization:\n    stage: 3\n# about lr\nlr: 1\n");
  EXPECT_EQ(
      edited("a.yaml", text, set("bf16.enabled", "true")),
      "model: m\ndeepspeed:\n  zero_optimization:\n    stage: 2\n  bf16:\n    enabled: true\n# about lr\nlr: 1\n");
  EXPECT_EQ(edited("a.yaml", text, remove("lr")), kRefused);
}

TEST(EditYaml, AConfigThatAnotherYamlRefersToNeedsNoKnownKey) {
  const SourcePtr source = checked_source("ds.yaml", "a: 1\nb: 2\n");
  Document document;
  document.form = Form::kYaml;
  document.source = source;
  document.root = parse_yaml(source).root;
  document.outer = checked_source("train.yaml", "deepspeed: ds.yaml\n");
  EXPECT_EQ(apply_edit(document, remove("a")), "b: 2\n");
  const std::vector<Edit> both = {remove("a"), remove("b")};
  EXPECT_EQ(apply_edits(document, both), "{}\n");
}

TEST(Edit, FormsWithoutATextOfTheirOwnAreRefused) {
  Document document = parse_document(checked_source("a.json", R"({"a": 1})"));
  document.form = Form::kBase64;
  EXPECT_EQ(apply_edit(document, set("a", "2")), std::nullopt);
  document.form = Form::kAccelerateYaml;
  EXPECT_EQ(apply_edit(document, set("a", "2")), std::nullopt);
}

TEST(Edit, SeveralEditsAreAllMadeOrNone) {
  const Document document = parse_document(checked_source("a.json", "{\n  \"a\": 1 // one\n}"));
  const std::vector<Edit> both = {set("z.s", "3"), set("z.o", "true"), remove("a")};
  EXPECT_EQ(apply_edits(document, both), "{\n  \"z\": {\n    \"s\": 3,\n    \"o\": true\n  }\n}");
  const std::vector<Edit> second_fails = {remove("a"), remove("a")};
  EXPECT_EQ(apply_edits(document, second_fails), std::nullopt);
  EXPECT_EQ(apply_edits(document, {}), document.source->text());
}

}  // namespace
}  // namespace weft::config
