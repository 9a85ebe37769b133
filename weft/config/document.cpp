#include "weft/config/document.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "weft/base/text.h"
#include "weft/config/base64_impl.h"
#include "weft/config/document_impl.h"
#include "weft/config/hjson.h"
#include "weft/config/hjson_impl.h"
#include "weft/config/lower.h"
#include "weft/config/yaml.h"

namespace weft::config {
namespace {

bool is_yaml_name(const std::string& name) {
  const std::string ending = lower(name.substr(std::min(name.rfind('.'), name.size())));
  return ending == ".yaml" || ending == ".yml";
}

Document hjson_document(SourcePtr source, Form form) {
  Value root = parse_hjson(source);
  const bool marked = source->text().starts_with(kUtf8ByteOrderMark);
  return {.form = form, .source = std::move(source), .root = std::move(root), .has_byte_order_mark = marked};
}

YamlTree yaml_object(const SourcePtr& source) {
  YamlTree tree = parse_yaml(source);
  if (!tree.root.is_object()) {
    throw ReadError(
        "syntax/root", source, tree.root.span,
        {cat("a config is an object, and this is ", kind_name(tree.root.kind)), "配置的最外层必须是对象（键值对）"},
        {"write key: value lines", "请写成 key: value 的形式"});
  }
  return tree;
}

// A YAML that is, or holds, the config. `found` leads into tree.root, which is taken last.
Document inline_document(const SourcePtr& source, YamlTree& tree, const YamlConfig& found) {
  const bool accelerate = found.kind == YamlConfig::Kind::kAccelerate;
  Document document{.form = accelerate ? Form::kAccelerateYaml : Form::kYaml, .source = source, .outer = source};
  document.root = accelerate ? accelerate_config(tree.root, *found.value) : *found.value;
  // Training settings that are not the config's are read by others, who turn such strings into numbers.
  const Span whole = found.value->span;
  std::ranges::copy_if(tree.exponent_strings, std::back_inserter(document.exponent_strings),
                       [&](Span span) { return span.begin >= whole.begin && span.end <= whole.end; });
  document.training = std::move(tree.root);
  document.has_byte_order_mark = source->text().starts_with(kUtf8ByteOrderMark);
  return document;
}

[[noreturn]] void refuse_without_config(const SourcePtr& source, const Value& training) {
  for (const std::string_view key : {"deepspeed", "deepspeed_config"}) {
    const Member* member = training.find_member(key);
    if (member == nullptr) continue;
    throw ReadError("syntax/reference", source, member->key_span,
                    {cat(key, " is empty here: this training uses no DeepSpeed config"),
                     cat("这里的 ", key, " 是空的：这个训练没有使用 DeepSpeed 配置")},
                    {cat("write ", key, ": path/to/ds_config.json, or check another file"),
                     cat("写上 ", key, ": path/to/ds_config.json，或检查别的文件")});
  }
  const Span first = training.members.empty() ? training.span : training.members.front().key_span;
  throw ReadError(
      "syntax/reference", source, first,
      {"this YAML has no DeepSpeed config in it and names none: no `deepspeed`, no `deepspeed_config`, no "
       "key such as zero_optimization or train_batch_size",
       "此 YAML 既不包含也没有引用 DeepSpeed 配置：没有 deepspeed、deepspeed_config，也没有 zero_optimization、"
       "train_batch_size 之类的键"},
      {"give the DeepSpeed config itself, or add deepspeed: path/to/ds_config.json",
       "请直接给出 DeepSpeed 配置文件，或加上 deepspeed: path/to/ds_config.json"});
}

std::string joined(const std::string& folder, const std::string& path) {
  return path.starts_with('/') || folder == "." ? path : cat(folder, "/", path);
}

bool exists(Env& env, const std::string& path) {
  try {
    return env.stat(path).has_value();
  } catch (const IoError&) {
    return false;  // a name too long, or through a file: reading it says more where that matters
  }
}

// Relative to the YAML, then to the working folder.
std::string follow(Env& env, const SourcePtr& source, const Value& reference) {
  std::vector<std::string> tried{joined(folder_of(source->name()), reference.text)};
  if (tried.front() != reference.text) tried.push_back(reference.text);
  const auto found = std::ranges::find_if(tried, [&](const std::string& path) { return exists(env, path); });
  if (found != tried.end()) return *found;
  throw ReadError("syntax/reference", source, reference.span,
                  {cat("the config that this YAML refers to does not exist; tried: ", join(tried, ", ")),
                   cat("此 YAML 引用的配置文件不存在；已尝试：", join(tried, "、"))},
                  {"correct the path, or run from the folder that it is relative to",
                   "请改正路径，或在该路径所相对的文件夹中运行"});
}

// A config that was referred to. A YAML is taken whole: references do not go on from there.
Document referred_document(Env& env, const std::string& path) {
  SourcePtr source = read_source(env, path);
  if (!is_yaml_name(path)) return hjson_document(std::move(source), Form::kHjson);
  YamlTree tree = yaml_object(source);
  const bool marked = source->text().starts_with(kUtf8ByteOrderMark);
  return {.form = Form::kYaml,
          .source = std::move(source),
          .root = std::move(tree.root),
          .exponent_strings = std::move(tree.exponent_strings),
          .has_byte_order_mark = marked};
}

// Without an env, what the YAML refers to cannot be followed.
Document yaml_document(Env* env, SourcePtr source) {
  YamlTree tree = yaml_object(source);
  const YamlConfig found = find_config(tree.root);
  if (found.kind == YamlConfig::Kind::kNone) refuse_without_config(source, tree.root);
  if (found.kind != YamlConfig::Kind::kReference) return inline_document(source, tree, found);
  if (env == nullptr) {
    throw ReadError("syntax/reference", source, found.value->span,
                    {cat("this YAML refers to ", found.value->text, ", and only its text is at hand"),
                     cat("此 YAML 引用了 ", found.value->text, "，但目前只有它的文本")},
                    {"give the YAML as a file, or the config itself", "请以文件形式给出此 YAML，或直接给出配置文件"});
  }
  Document document = referred_document(*env, follow(*env, source, *found.value));
  document.outer = std::move(source);
  document.training = std::move(tree.root);
  return document;
}

std::optional<Document> base64_document(const std::string& text) {
  const bool meant = looks_like_base64_object(text);
  const auto decoded = decode_base64(text);
  if (!decoded && meant) {
    const auto source = std::make_shared<const Source>("<base64>", text);
    throw ReadError(
        "syntax/base64", source, {0, text.size()},
        {cat("this looks like a config in base64, but ", text.size(), " characters are not whole groups of four"),
         cat("这看起来是 base64 形式的配置，但 ", text.size(), " 个字符不是 4 的整数倍")},
        {"pass all of it, with the '=' at its end", "请完整传入，包括末尾的 '='"});
  }
  if (!decoded) return std::nullopt;
  try {
    Document document = hjson_document(checked_source("<base64>", *decoded), Form::kBase64);
    const bool is_config = !document.root.members.empty() || decoded->starts_with('{');
    return is_config ? std::optional(std::move(document)) : std::nullopt;
  } catch (const ReadError&) {
    if (meant) throw;
    return std::nullopt;  // a file's name that happens to be made of such letters
  }
}

}  // namespace

Document load_document(Env& env, const std::string& path) {
  if (!exists(env, path)) {
    if (auto document = base64_document(path)) return std::move(*document);
  }
  SourcePtr source = read_source(env, path);
  return is_yaml_name(path) ? yaml_document(&env, std::move(source)) : hjson_document(std::move(source), Form::kHjson);
}

Document parse_document(SourcePtr source) {
  const bool yaml = is_yaml_name(source->name());
  return yaml ? yaml_document(nullptr, std::move(source)) : hjson_document(std::move(source), Form::kHjson);
}

}  // namespace weft::config
