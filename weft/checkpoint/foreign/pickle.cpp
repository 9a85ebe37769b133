#include "weft/checkpoint/foreign/pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>

#include "weft/base/text.h"
#include "weft/checkpoint/foreign/refuse_impl.h"

namespace weft::checkpoint::foreign {

namespace {
using Kind = Value::Kind;
}  // namespace

const Value* Value::find(std::string_view key) const {
  if (kind == Kind::kObject) return state == nullptr ? nullptr : state->is(Kind::kDict) ? state->find(key) : nullptr;
  if (kind != Kind::kDict) return nullptr;
  // The last one counts, as in Python.
  for (size_t i = items.size(); i >= 2; i -= 2) {
    if (items[i - 2]->is(Kind::kText) && items[i - 2]->text == key) return items[i - 1];
  }
  return nullptr;
}

bool Value::is_call(std::string_view global) const {
  return kind == Kind::kObject && of != nullptr && of->text == global;
}

std::optional<int64_t> integer_in(const Value* value) {
  if (value == nullptr || (!value->is(Kind::kInteger) && !value->is(Kind::kBool))) return std::nullopt;
  return value->integer;
}

std::optional<double> number_in(const Value* value) {
  if (value != nullptr && value->is(Kind::kReal)) return value->real;
  const auto whole = integer_in(value);
  return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

std::string described(const Value& value) {
  switch (value.kind) {
    case Kind::kNone: return "None";
    case Kind::kBool: return "a truth value";
    case Kind::kInteger:
    case Kind::kBig: return "an integer";
    case Kind::kReal: return "a number";
    case Kind::kText: return "a text";
    case Kind::kList: return cat("a list of ", value.items.size());
    case Kind::kTuple: return cat("a tuple of ", value.items.size());
    case Kind::kDict: return cat("a dict of ", value.items.size() / 2);
    case Kind::kGlobal: return value.text;
    case Kind::kObject: return value.of->text;
    case Kind::kPersistent: return "a storage";
  }
  return "";
}

namespace {

constexpr size_t kMaxGlobalBytes = 500;

// The opcodes, as Python has them.
enum Op : uint8_t {
  kMark = '(',
  kStop = '.',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersId = 'Q',
  kReduce = 'R',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyDict = '}',
  kEmptyList = ']',
  kEmptyTuple = ')',
  kProto = 0x80,
  kNewObj = 0x81,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
};

bool is_plain(std::string_view name) {
  return !name.empty() && name.size() <= kMaxGlobalBytes &&
         std::ranges::all_of(name, [](unsigned char c) { return c > 0x20 && c < 0x7f; });
}

}  // namespace

class PickleMachine {
 public:
  PickleMachine(Pickle& into, std::string_view bytes, const std::string& where, KnownGlobal known,
                const PickleLimits& limits)
      : values_(into.values_), bytes_(bytes), where_(where), known_(known), limits_(limits) {
    if (bytes.size() > limits.bytes) fail(cat("it has ", bytes.size(), " bytes, the limit is ", limits.bytes));
  }

  const Value* run() {
    if (byte() != kProto || byte() != 2)
      fail("it is not a pickle of protocol 2", "save it again with torch.save, without pickle_protocol");
    for (;;) {
      op_at_ = at_;
      const uint8_t op = byte();
      if (op == kStop) return stop();
      step(op);
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { refuse(what, cat(where_, ", byte ", op_at_)); }
  [[noreturn]] void fail(const std::string& what, std::string fix) const {
    refuse(what, cat(where_, ", byte ", op_at_), std::move(fix));
  }

  // --- Bytes ---------------------------------------------------------------------------------------------------------

  std::string_view take(uint64_t count) {
    if (count > bytes_.size() - at_)
      fail(cat("it ends early: ", count, " bytes are to follow, ", bytes_.size() - at_, " do"));
    const std::string_view out = bytes_.substr(at_, count);
    at_ += count;
    return out;
  }
  uint8_t byte() { return static_cast<uint8_t>(take(1)[0]); }

  uint64_t little(std::string_view bytes) const {
    uint64_t out = 0;
    for (size_t i = 0; i < bytes.size(); ++i) out |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
    return out;
  }
  uint64_t unsigned_of(size_t count) { return little(take(count)); }

  std::string_view line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos || end - at_ > kMaxGlobalBytes) fail("it names something that has no name");
    const std::string_view out = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return out;
  }

  // --- Values --------------------------------------------------------------------------------------------------------

  Value* make(Value value) {
    if (values_.size() >= limits_.values) fail(cat("it has more than ", limits_.values, " values"));
    return &values_.emplace_back(std::move(value));
  }
  // Those that have no parts of their own are made once.
  Value* shared(size_t slot, const Value& value) {
    if (shared_[slot] == nullptr) shared_[slot] = make(value);
    return shared_[slot];
  }
  void push(Value* value) {
    if (++pushes_ > limits_.pushes) fail(cat("it has more than ", limits_.pushes, " references"));
    stack_.push_back(value);
  }
  void push_new(Value value) { push(make(std::move(value))); }
  void push_integer(int64_t number) {
    const Value value{.kind = Kind::kInteger, .integer = number};
    push(number >= 0 && number < 256 ? shared(kFirstSmall + static_cast<size_t>(number), value) : make(value));
  }

  // What lies above the last mark is not to be reached from below it, and the other way round.
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Value* top() {
    if (stack_.size() <= floor()) fail("it takes a value where there is none");
    return stack_.back();
  }
  Value* pop() {
    Value* const out = top();
    stack_.pop_back();
    return out;
  }
  std::vector<const Value*> pop_many(size_t count) {
    if (stack_.size() - floor() < count) fail("it takes a value where there is none");
    std::vector<const Value*> out(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return out;
  }
  std::vector<const Value*> pop_to_mark() {
    if (marks_.empty()) fail("it goes back to a mark where there is none");
    std::vector<const Value*> out = pop_many(stack_.size() - marks_.back());
    marks_.pop_back();
    return out;
  }
  Value* pop_of(Kind kind, const char* what) {
    Value* const out = pop();
    if (!out->is(kind)) fail(cat("it takes ", described(*out), " for ", what));
    return out;
  }

  void put(uint64_t slot) {
    if (slot >= limits_.values) fail(cat("it remembers a value as number ", slot, ", the limit is ", limits_.values));
    if (slot >= memo_.size()) memo_.resize(slot + 1, nullptr);
    memo_[slot] = top();
  }
  void get(uint64_t slot) {
    if (slot >= memo_.size() || memo_[slot] == nullptr) fail(cat("it recalls value ", slot, ", which is not there"));
    push(memo_[slot]);
  }

  // --- Opcodes -------------------------------------------------------------------------------------------------------

  void step(uint8_t op) {
    switch (op) {
      case kMark:
        if (marks_.size() >= limits_.depth) fail(cat("it is nested deeper than ", limits_.depth));
        marks_.push_back(stack_.size());
        return;
      case kNone: return push(shared(kNoneSlot, {}));
      case kNewTrue: return push(shared(kTrueSlot, {.kind = Kind::kBool, .integer = 1}));
      case kNewFalse: return push(shared(kFalseSlot, {.kind = Kind::kBool}));
      case kEmptyTuple: return push(shared(kTupleSlot, {.kind = Kind::kTuple}));
      case kBinInt: return push_integer(static_cast<int32_t>(static_cast<uint32_t>(unsigned_of(4))));
      case kBinInt1: return push_integer(static_cast<int64_t>(unsigned_of(1)));
      case kBinInt2: return push_integer(static_cast<int64_t>(unsigned_of(2)));
      case kLong1: return long_of(unsigned_of(1));
      case kLong4: return long_of(unsigned_of(4));
      case kBinFloat: return real();
      case kBinUnicode: {
        const uint64_t count = unsigned_of(4);
        return push_new({.kind = Kind::kText, .text = std::string(take(count))});
      }
      case kEmptyList: return push_new({.kind = Kind::kList});
      case kEmptyDict: return push_new({.kind = Kind::kDict});
      case kTuple: return push_new({.kind = Kind::kTuple, .items = pop_to_mark()});
      case kTuple1: return push_new({.kind = Kind::kTuple, .items = pop_many(1)});
      case kTuple2: return push_new({.kind = Kind::kTuple, .items = pop_many(2)});
      case kTuple3: return push_new({.kind = Kind::kTuple, .items = pop_many(3)});
      case kAppend: return append(pop_many(1));
      case kAppends: return append(pop_to_mark());
      case kSetItem: return set(pop_many(2));
      case kSetItems: return set(pop_to_mark());
      case kBinPut: return put(unsigned_of(1));
      case kLongBinPut: return put(unsigned_of(4));
      case kBinGet: return get(unsigned_of(1));
      case kLongBinGet: return get(unsigned_of(4));
      case kGlobal: return global();
      case kReduce:
      case kNewObj: return call();
      case kBuild: return build();
      case kBinPersId: {
        const Value* const id = pop();
        return push_new({.kind = Kind::kPersistent, .args = id});
      }
      default: fail(cat("it has the opcode ", static_cast<int>(op), ", which no file of torch.save needs"));
    }
  }

  void long_of(uint64_t count) {
    const std::string_view bytes = take(count);
    if (count > 8) return push_new({.kind = Kind::kBig, .text = std::string(bytes)});
    uint64_t bits = little(bytes);
    const bool negative = count > 0 && (static_cast<uint8_t>(bytes.back()) & 0x80U) != 0;
    if (negative && count < 8) bits |= ~uint64_t{0} << (8 * count);
    push_integer(static_cast<int64_t>(bits));
  }

  void real() {
    uint64_t bits = 0;
    for (const char c : take(8)) bits = (bits << 8U) | static_cast<uint8_t>(c);
    push_new({.kind = Kind::kReal, .real = std::bit_cast<double>(bits)});
  }

  void global() {
    const std::string_view module = line(), name = line();
    if (!is_plain(module) || !is_plain(name)) fail("it names something that has no name");
    if (!known_(module, name))
      fail(cat("it asks for ", module, ".", name, ", which no weights need; nothing of the file was run"),
           "if you trust the file: load it in Python, and save its tensors alone (safetensors, or torch.save of a "
           "dict)");
    push_new({.kind = Kind::kGlobal, .text = cat(module, ".", name)});
  }

  // A dict stays one whatever kind of dict it is.
  void call() {
    Value* const args = pop_of(Kind::kTuple, "arguments");
    const Value* const of = pop_of(Kind::kGlobal, "what is called");
    const bool is_dict =
        (of->text == "collections.OrderedDict" && args->items.empty()) || of->text == "collections.defaultdict";
    push_new(is_dict ? Value{.kind = Kind::kDict} : Value{.kind = Kind::kObject, .of = of, .args = args});
  }

  void build() {
    const Value* const state = pop();
    Value* const object = top();
    if ((!object->is(Kind::kObject) && !object->is(Kind::kDict)) || object->state != nullptr)
      fail(cat("it gives a state to ", described(*object)));
    object->state = state;
  }

  void append(std::vector<const Value*> items) {
    Value* const list = top();
    if (!list->is(Kind::kList) && !list->is(Kind::kObject)) fail(cat("it appends to ", described(*list)));
    list->items.insert(list->items.end(), items.begin(), items.end());
  }

  void set(std::vector<const Value*> items) {
    Value* const dict = top();
    if (!dict->is(Kind::kDict) && !dict->is(Kind::kObject)) fail(cat("it sets items of ", described(*dict)));
    if (items.size() % 2 != 0) fail("it sets a key without a value");
    dict->items.insert(dict->items.end(), items.begin(), items.end());
  }

  const Value* stop() {
    if (!marks_.empty() || stack_.size() != 1) fail("it ends in the middle of something");
    if (at_ != bytes_.size()) fail(cat(bytes_.size() - at_, " bytes follow its end"));
    return stack_.front();
  }

  static constexpr size_t kNoneSlot = 0, kTrueSlot = 1, kFalseSlot = 2, kTupleSlot = 3, kFirstSmall = 4;

  std::deque<Value>& values_;
  const std::string_view bytes_;
  const std::string& where_;
  const KnownGlobal known_;
  const PickleLimits& limits_;
  size_t at_ = 0, op_at_ = 0;
  uint64_t pushes_ = 0;
  std::vector<Value*> stack_;
  std::vector<size_t> marks_;
  std::vector<Value*> memo_;
  std::array<Value*, kFirstSmall + 256> shared_ = {};
};

Pickle::Pickle(std::string_view bytes, const std::string& where, KnownGlobal known, const PickleLimits& limits)
    : root_(PickleMachine(*this, bytes, where, known, limits).run()) {}

}  // namespace weft::checkpoint::foreign
