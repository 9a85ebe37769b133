// A pickle as data: what it says is built, nothing that it says is done. There is no interpreter behind it, so a call stays the
// name of what would have been called and the values it would have been called with; and names that nobody expects are refused
// before anything else is read.
//
//   const Pickle pickle(text, "model.bin, data.pkl", is_known_global);
//   const Value* weights = pickle.root().find("state_dict");
//
// Protocol 2, the opcodes that Python's pickler writes for what torch.save is given. Values may be shared and may contain themselves:
// whoever walks through them needs a limit of their own.
//
// Ownership: a Pickle owns its values; they stay where they are while it lives. Threads: a value like any other once it is made.
// Failure: Error(kInput) that names the file and the byte.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::checkpoint::foreign {

struct Value {
  enum class Kind : uint8_t {
    kNone,
    kBool,        // integer
    kInteger,     // integer
    kBig,         // text: the bytes of an integer of more than 64 bits
    kReal,        // real
    kText,        // text, UTF-8 as far as Python goes
    kList,        // items
    kTuple,       // items
    kDict,        // items: key, value, key, value, ...
    kGlobal,      // text: "module.name"
    kObject,      // of (a global), args (a tuple), state, items (what was appended or set)
    kPersistent,  // args: the id, whose meaning is the container's
  };
  Kind kind = Kind::kNone;
  int64_t integer = 0;
  double real = 0;
  std::string text = {};
  std::vector<const Value*> items = {};
  const Value* of = nullptr;
  const Value* args = nullptr;
  const Value* state = nullptr;

  bool is(Kind what) const { return kind == what; }
  // Of a dict with text keys, or an object's state: null where there is none.
  const Value* find(std::string_view key) const;
  // An object made by this global: "torch._utils._rebuild_tensor_v2".
  bool is_call(std::string_view global) const;
};

// Whole numbers, truth values included; reals that are whole are not.
std::optional<int64_t> integer_in(const Value* value);
// Any number.
std::optional<double> number_in(const Value* value);
// "a dict of 3", "deepspeed.runtime.x.Y": for messages.
std::string described(const Value& value);

struct PickleLimits {
  uint64_t bytes = 64 << 20;
  uint64_t values = 4'000'000;   // about 100 bytes each
  uint64_t pushes = 32'000'000;  // references to them, 8 bytes each
  uint64_t depth = 1000;         // of marks
};

// Whether a pickle may name it.
using KnownGlobal = bool (*)(std::string_view module, std::string_view name);

class Pickle {
 public:
  Pickle(std::string_view bytes, const std::string& where, KnownGlobal known, const PickleLimits& limits = {});
  ~Pickle() = default;
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  const Value& root() const { return *root_; }

 private:
  friend class PickleMachine;
  std::deque<Value> values_;
  const Value* root_ = nullptr;
};

}  // namespace weft::checkpoint::foreign
