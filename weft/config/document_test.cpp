#include "weft/config/document.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <optional>

#include "tests/support/temp_dir.h"
#include "weft/config/test_reading_impl.h"

namespace weft::config {
namespace {

using test::TempDir;

class DocumentTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    const std::string path = dir_ / name;
    Env::posix().make_folders(folder_of(path));
    write_file(Env::posix(), path, bytes_of(text));
    return path;
  }
  Document load(const std::string& name, const std::string& text) {
    return load_document(Env::posix(), write(name, text));
  }

  TempDir dir_;
};

TEST_F(DocumentTest, ReadsHjsonWhateverItsEnding) {
  for (const char* name : {"ds.json", "ds.hjson", "ds"}) {
    const Document document = load(name, "{train_batch_size: 8}");
    EXPECT_EQ(document.form, Form::kHjson);
    EXPECT_EQ(to_json(document.root), R"({"train_batch_size": 8})");
    EXPECT_EQ(document.outer, nullptr);
    EXPECT_EQ(document.training.kind, Kind::kNull);
    EXPECT_FALSE(document.has_byte_order_mark);
  }
  EXPECT_TRUE(load("marked.json", "\xEF\xBB\xBF{}").has_byte_order_mark);
}

TEST_F(DocumentTest, ReadsBase64WhereNoFileIs) {
  const Document document = load_document(Env::posix(), "eyJ0cmFpbl9iYXRjaF9zaXplIjogOH0=");
  EXPECT_EQ(document.form, Form::kBase64);
  EXPECT_EQ(document.source->name(), "<base64>");
  EXPECT_EQ(document.source->text(), R"({"train_batch_size": 8})");
  EXPECT_EQ(document.root.find("train_batch_size")->integer, 8);
  // {"a": ">?>?"} in the urlsafe and in the standard alphabet.
  for (const char* text : {"eyJhIjogIj4_Pj8ifQ==", "eyJhIjogIj4/Pj8ifQ=="})
    EXPECT_EQ(load_document(Env::posix(), text).root.find("a")->text, ">?>?");
  EXPECT_EQ(load_document(Env::posix(), "e30=").root.kind, Kind::kObject);
}

TEST_F(DocumentTest, ReadsBase64LongerThanAnyPath) {
  std::string text;  // of {"a": 1, and blanks, and }
  for (int i = 0; i < 3000; ++i) text += "ICAg";
  EXPECT_EQ(load_document(Env::posix(), "eyJhIjox" + text + "fSAg").root.find("a")->integer, 1);
}

TEST_F(DocumentTest, SaysWhatIsWrongWithBase64) {
  expect_refused([] { load_document(Env::posix(), "eyJ0cmFpbl9iYXRjaF9zaXplIjogOH0"); }, "syntax/base64",
                 "31 characters are not whole groups of four");
  expect_refused([] { load_document(Env::posix(), "eyJ0cmFpbl9iYXRjaF9zaXplIjogOCAg"); }, "syntax/hjson",
                 "never closed");
  for (const char* text : {"", "abcd", "no_such_file", "YQ=="})
    expect_refused([&] { load_document(Env::posix(), text); }, "syntax/missing-file", "does not exist");
}

TEST_F(DocumentTest, ReadsTheYamlFormOfAConfig) {
  const Document document = load("ds.yaml", "zero_optimization:\n  stage: 3\n  reduce_bucket_size: 5e8\n");
  EXPECT_EQ(document.form, Form::kYaml);
  EXPECT_EQ(to_json(document.root), R"({"zero_optimization": {"stage": 3, "reduce_bucket_size": 500000000}})");
  EXPECT_EQ(document.exponent_strings.size(), 1u);
  EXPECT_EQ(document.outer, document.source);
  EXPECT_EQ(load("ds.YML", "bf16: {enabled: true}").root.members.size(), 1u);
}

TEST_F(DocumentTest, FollowsAReferenceFromTheYamlsFolder) {
  write("run/ds.json", R"({"train_batch_size": 4})");
  for (const char* yaml : {"deepspeed: ds.json\nlearning_rate: 1e-4\n", "deepspeed: {config_file: ds.json, x: 1}\n",
                           "deepspeed_config: ds.json\n", "deepspeed_config:\n  deepspeed_config_file: ds.json\n"}) {
    const Document document = load("run/train.yaml", yaml);
    EXPECT_EQ(document.form, Form::kHjson) << yaml;
    EXPECT_EQ(document.source->name(), dir_ / "run/ds.json") << yaml;
    EXPECT_EQ(document.outer->name(), dir_ / "run/train.yaml") << yaml;
    EXPECT_EQ(document.root.find("train_batch_size")->integer, 4) << yaml;
    EXPECT_TRUE(document.training.is_object()) << yaml;
    EXPECT_TRUE(document.exponent_strings.empty()) << yaml;
  }
}

TEST_F(DocumentTest, FollowsAReferenceFromTheWorkingFolder) {
  write("conf/ds.json", R"({"train_batch_size": 4})");
  const std::string yaml = write("runs/a/train.yaml", "deepspeed: conf/ds.json\n");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(dir_.path());
  const Document document = load_document(Env::posix(), yaml);
  std::filesystem::current_path(before);
  EXPECT_EQ(document.source->name(), "conf/ds.json");
}

TEST_F(DocumentTest, TakesAReferredYamlWhole) {
  write("ds.yaml", "gradient_clipping: 1e0\ndeepspeed: other.json\n");
  const Document document = load("train.yaml", "deepspeed: ds.yaml\n");
  EXPECT_EQ(document.form, Form::kYaml);
  EXPECT_EQ(document.root.members.size(), 2u);
  EXPECT_EQ(document.exponent_strings.size(), 1u);
}

TEST_F(DocumentTest, ListsThePathsItTried) {
  const std::string yaml = write("train.yaml", "x: 1\ndeepspeed: gone.json\n");
  expect_refused([&] { load_document(Env::posix(), yaml); }, "syntax/reference",
                 "tried: " + dir_ / "gone.json" + ", gone.json");
}

TEST_F(DocumentTest, ReadsAnInlineConfig) {
  const Document document = load("train.yaml", "lr: 1e-4\ndeepspeed:\n  train_batch_size: 8\n  lr: 1e-5\n");
  EXPECT_EQ(document.form, Form::kYaml);
  EXPECT_EQ(to_json(document.root), R"({"train_batch_size": 8, "lr": 1e-05})");
  EXPECT_EQ(document.training.members.size(), 2u);
  ASSERT_EQ(document.exponent_strings.size(), 1u);
  EXPECT_EQ(document.source->at(document.exponent_strings[0]), "1e-5");
  EXPECT_EQ(load("a.yaml", "deepspeed_config:\n  zero_optimization: {stage: 1}\n").form, Form::kYaml);
}

TEST_F(DocumentTest, PutsAcceleratesKeysInTheirPlaces) {
  const Document document = load("accelerate.yaml",
                                 "distributed_type: DEEPSPEED\n"
                                 "deepspeed_config:\n"
                                 "  deepspeed_multinode_launcher: standard\n"
                                 "  gradient_accumulation_steps: 4\n"
                                 "  gradient_clipping: 1.0\n"
                                 "  offload_optimizer_device: nvme\n"
                                 "  offload_optimizer_nvme_path: /nvme\n"
                                 "  offload_param_device: none\n"
                                 "  offload_param_nvme_path: none\n"
                                 "  zero3_init_flag: true\n"
                                 "  zero3_save_16bit_model: true\n"
                                 "  zero_stage: 3\n"
                                 "  zero_stgae: 3\n"
                                 "mixed_precision: bf16\n");
  EXPECT_EQ(document.form, Form::kAccelerateYaml);
  EXPECT_EQ(to_json(document.root),
            R"({"gradient_accumulation_steps": 4, "gradient_clipping": 1.0, "zero_optimization": )"
            R"({"offload_optimizer": {"device": "nvme", "nvme_path": "/nvme"}, "offload_param": {"device": "none"}, )"
            R"("stage3_gather_16bit_weights_on_model_save": true, "stage": 3}, "zero_stgae": 3, )"
            R"("bf16": {"enabled": true}, "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto"})");
  const Source& source = *document.source;
  EXPECT_EQ(source.at(find_path(document.root, "zero_optimization")->span), "offload_optimizer_device: nvme");
  EXPECT_EQ(source.at(find_member_path(document.root, "zero_optimization.stage")->key_span), "zero_stage");
  EXPECT_EQ(source.at(find_path(document.root, "bf16")->span), "mixed_precision: bf16");
  EXPECT_EQ(document.training.find("distributed_type")->text, "DEEPSPEED");
}

TEST_F(DocumentTest, LeavesMixedPrecisionOutWhereThereIsNone) {
  for (const char* value : {"'no'", "fp8", "no"}) {
    const Document document =
        load("a.yaml", std::string("deepspeed_config: {zero_stage: 1}\nmixed_precision: ") + value + "\n");
    EXPECT_EQ(document.root.find("bf16"), nullptr);
    EXPECT_EQ(document.root.find("fp16"), nullptr);
  }
}

TEST_F(DocumentTest, RefusesAYamlWithoutAConfig) {
  for (const char* text : {"model: x\nbf16: true\n", "deepspeed: null\n", "deepspeed: true\nfp16: false\n", "{}\n"})
    expect_refused([&] { load("train.yaml", text); }, "syntax/reference", "no DeepSpeed config");
  expect_refused([&] { load("list.yaml", "- 1\n"); }, "syntax/root", "this is a list");
  expect_refused([&] { load("empty.yaml", "# nothing\n"); }, "syntax/root", "this is null");
}

TEST(ParseDocument, DecidesByTheName) {
  const auto yaml = std::make_shared<const Source>("x.yaml", "train_batch_size: 8e0\n");
  EXPECT_EQ(parse_document(yaml).form, Form::kYaml);
  const auto hjson = std::make_shared<const Source>("x.json", "train_batch_size: 8\n");
  EXPECT_EQ(parse_document(hjson).form, Form::kHjson);
  const auto reference = std::make_shared<const Source>("x.yaml", "deepspeed: ds.json\n");
  expect_refused([&] { parse_document(reference); }, "syntax/reference", "refers to ds.json");
}

}  // namespace
}  // namespace weft::config
