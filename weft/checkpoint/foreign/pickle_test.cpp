#include "weft/checkpoint/foreign/pickle.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/checkpoint/foreign/torch_globals.h"
#include "weft/checkpoint/foreign/torch_save_maker.h"

namespace weft::checkpoint::foreign {
namespace {

using Kind = Value::Kind;
using test::dict, test::global, test::integer, test::list, test::pickled, test::sizes, test::text;

std::string pickle_refusal(const std::string& bytes, const PickleLimits& limits = {}) {
  try {
    const Pickle pickle(bytes, "f", is_known_global, limits);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return cat(error.text().what, " @ ", error.text().where);
  }
  return "";
}

TEST(Pickle, ReadsWhatPythonWrites) {
  // pickle.dumps({'a': [1, -2, 300, 70000, 2**40, -1.5, None, True, False], 'b': ('x', ()), 3: {}}, 2)
  const std::string bytes(
      "\x80\x02}q\x00(X\x01\x00\x00\x00"
      "aq\x01]q\x02(K\x01J\xfe\xff\xff\xffM,\x01Jp\x11\x01\x00\x8a\x06\x00\x00\x00\x00\x00\x01"
      "G\xbf\xf8\x00\x00\x00\x00\x00\x00N\x88\x89"
      "eX\x01\x00\x00\x00"
      "bq\x03X\x01\x00\x00\x00xq\x04)\x86q\x05K\x03}q\x06u.",
      81);
  const Pickle pickle(bytes, "f", is_known_global);
  const Value& root = pickle.root();
  ASSERT_TRUE(root.is(Kind::kDict));
  const Value* const a = root.find("a");
  ASSERT_NE(a, nullptr);
  ASSERT_EQ(a->items.size(), 9U);
  const int64_t numbers[] = {1, -2, 300, 70000, int64_t{1} << 40};
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(integer_in(a->items[i]), numbers[i]);
  EXPECT_EQ(number_in(a->items[5]), -1.5);
  EXPECT_TRUE(a->items[6]->is(Kind::kNone));
  EXPECT_EQ(integer_in(a->items[7]), 1);
  EXPECT_EQ(integer_in(a->items[8]), 0);
  EXPECT_EQ(root.find("b")->items[0]->text, "x");
  EXPECT_TRUE(root.find("b")->items[1]->items.empty());
  EXPECT_EQ(root.find("c"), nullptr);
}

TEST(Pickle, KeepsObjectsAsTheirNames) {
  const std::string scaler =
      cat(global("deepspeed.runtime.fp16.loss_scaler", "LossScaler"), ")\x81", dict({{"cur_scale", integer(8)}}), "b");
  const Pickle pickle(
      pickled(dict({{"s", scaler}, {"od", cat(global("collections", "OrderedDict"), ")R", text("k"), "K\x07s")}})), "f",
      is_known_global);
  const Value* const object = pickle.root().find("s");
  EXPECT_TRUE(object->is_call("deepspeed.runtime.fp16.loss_scaler.LossScaler"));
  EXPECT_EQ(integer_in(object->find("cur_scale")), 8);
  EXPECT_EQ(described(*object), "deepspeed.runtime.fp16.loss_scaler.LossScaler");
  EXPECT_EQ(integer_in(pickle.root().find("od")->find("k")), 7);
}

TEST(Pickle, SharesAndContainsItself) {
  const Pickle pickle(pickled("]q\x07h\x07"
                              "a"),
                      "f", is_known_global);
  EXPECT_EQ(pickle.root().items[0], &pickle.root());
}

TEST(Pickle, RefusesEveryGlobalThatRunsCode) {
  const std::string call = cat("(", text("touch /tmp/owned"), "tR");
  for (const auto& [module, name] : test::Entries{{"os", "system"},
                                                  {"posix", "system"},
                                                  {"nt", "system"},
                                                  {"subprocess", "Popen"},
                                                  {"builtins", "eval"},
                                                  {"builtins", "exec"},
                                                  {"builtins", "getattr"},
                                                  {"__builtin__", "eval"},
                                                  {"__builtin__", "__import__"},
                                                  {"importlib", "import_module"},
                                                  {"torch.hub", "load"},
                                                  {"torch", "load"},
                                                  {"torch.serialization", "load"},
                                                  {"torch._utils", "_rebuild_wrapper_subclass"},
                                                  {"runpy", "run_path"},
                                                  {"deepspeedx", "thing"},
                                                  {"copyreg", "_reconstructor"},
                                                  {"collections", "abc"}}) {
    const std::string said = pickle_refusal(pickled(cat("}", text("a"), global(module, name), call, "s")));
    EXPECT_NE(said.find(cat(module, ".", name)), std::string::npos) << said;
    EXPECT_NE(said.find("byte 9"), std::string::npos) << said;
  }
  EXPECT_NE(pickle_refusal(pickled(cat(global("o\x01s", "system"), ")R"))), "");
  EXPECT_NE(pickle_refusal(pickled(cat(global("", ""), ")R"))), "");
  EXPECT_NE(pickle_refusal(pickled(cat(global("torch", std::string(600, 'x')), ")R"))), "");
}

TEST(Pickle, CallsOnlyNames) {
  EXPECT_NE(pickle_refusal(pickled(cat(text("os"), ")R"))), "");                   // a text is called
  EXPECT_NE(pickle_refusal(pickled(cat(global("torch", "Size"), "K\x01R"))), "");  // with a number
  EXPECT_NE(pickle_refusal(pickled(cat(global("torch", "Size"), ")R)R"))), "");    // what a call gave is called
  EXPECT_NE(pickle_refusal(pickled("K\x01}b")), "");                               // a number gets a state
  EXPECT_NE(pickle_refusal(pickled(cat(global("torch", "Size"), ")R}b}b"))), "");  // twice
  for (const char op :
       {'i', 'o', 'P', '0', '1', '2', 'I', 'S', 'p', 'g', '\x82', '\x92', '\x93', '\x94', '\x95', 'B', 'C'})
    EXPECT_NE(pickle_refusal(pickled(cat(")", op, "os\nsystem\n"))).find("opcode"), std::string::npos)
        << static_cast<int>(op);
}

TEST(Pickle, RefusesWhatDoesNotAddUp) {
  for (const std::string& body :
       {std::string(), std::string("a"), std::string("]a"), std::string("t"), std::string("(u"), std::string("}(NuN"),
        std::string("}(Nu"), std::string("NN"), std::string("(N"), std::string("h\x05"), std::string("]N(ta"),
        std::string("N(a"), std::string("]("), std::string("\x85")})
    EXPECT_NE(pickle_refusal(pickled(body)), "") << body;
  EXPECT_NE(pickle_refusal(cat(pickled("N"), "N")).find("follow"), std::string::npos);
  EXPECT_NE(pickle_refusal("\x80\x04N."), "");
  EXPECT_NE(pickle_refusal("N."), "");
}

TEST(Pickle, HugeNumbersCostNothing) {
  EXPECT_NE(pickle_refusal(pickled(cat("N", "r", "\xff\xff\xff\xff"))).find("limit"),
            std::string::npos);  // LONG_BINPUT
  EXPECT_NE(pickle_refusal(pickled(cat("j", "\xff\xff\xff\xff"))), "");
  EXPECT_NE(pickle_refusal(pickled(cat("X", "\xff\xff\xff\xff"))).find("ends early"), std::string::npos);
  EXPECT_NE(pickle_refusal(pickled(cat("\x8b", "\xff\xff\xff\x7f"))), "");  // LONG4
  EXPECT_NE(pickle_refusal(pickled(cat("\x8b", "\xff\xff\xff\xff"))), "");
  EXPECT_EQ(pickle_refusal(pickled(cat("\x8a\x20", std::string(32, '\x7f')))),
            "");  // 256 bits: an integer, and not one that can be used
}

TEST(Pickle, HasLimits) {
  EXPECT_NE(pickle_refusal(pickled(std::string(2000, '('))).find("nested"), std::string::npos);
  EXPECT_NE(pickle_refusal(pickled(cat(std::string(200, ']'))), {.values = 100}).find("more than 100 values"),
            std::string::npos);
  EXPECT_NE(pickle_refusal(pickled(cat(std::string(200, 'N'))), {.pushes = 100}).find("more than 100 references"),
            std::string::npos);
  EXPECT_NE(pickle_refusal(pickled("N"), {.bytes = 2}).find("limit is 2"), std::string::npos);
}

TEST(Pickle, CutAnywhereIsRefused) {
  const std::string bytes = pickled(dict({{"a", test::tensor({.count = 6, .shape = {2, 3}, .strides = {3, 1}})},
                                          {"b", list({integer(-1), text("x"), "G12345678"})},
                                          {"c", cat("]q\x01r\x02", std::string(3, '\0'),
                                                    "h\x01"
                                                    "a")}}));
  ASSERT_EQ(pickle_refusal(bytes), "");
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_NE(pickle_refusal(bytes.substr(0, size)), "") << size;
}

}  // namespace
}  // namespace weft::checkpoint::foreign
