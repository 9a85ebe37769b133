// Keys nobody reads: which is a slip of the finger, which stands in the wrong place, which belongs to another tool.
#include <algorithm>

#include "weft/base/text.h"
#include "weft/config/reading_impl.h"

namespace weft::config {
namespace {

const StrayKey* find_stray(std::string_view section, std::string_view key) {
  const StrayKey* anywhere = nullptr;
  for (const StrayKey& stray : stray_keys()) {
    if (stray.key != key) continue;
    if (stray.in == section) return &stray;
    if (stray.in == "*") anywhere = &stray;
  }
  return anywhere;
}

// "_comment", "//", "#note": a comment in the only form plain JSON has.
bool is_comment_key(std::string_view key) {
  return key.starts_with('_') || key.starts_with("//") || key.starts_with('#') || key == "comment" || key == "comments";
}

// Where settings of that name live, as far as a person could mean them: a name that stands everywhere says nothing.
std::vector<std::string> places_of(std::string_view key, Version version) {
  constexpr size_t kMostPlaces = 3;
  std::vector<std::string> places;
  for (const Setting& setting : settings()) {
    const bool named =
        setting.key == key || std::find(setting.aliases.begin(), setting.aliases.end(), key) != setting.aliases.end();
    if (named && setting.exists_in(version)) places.emplace_back(setting.path);
  }
  return places.size() <= kMostPlaces ? places : std::vector<std::string>{};
}

const Section* find_section_elsewhere(std::string_view key) {
  for (const Section& section : sections()) {
    const size_t dot = section.path.rfind('.');
    if (section.path.substr(dot == std::string_view::npos ? 0 : dot + 1) == key && !key.empty()) return &section;
  }
  return nullptr;
}

std::vector<std::string> keys_of(const Section& section, Version version) {
  std::vector<std::string> keys;
  for (const Setting& setting : settings()) {
    if (setting.section != &section || !setting.exists_in(version)) continue;
    keys.emplace_back(setting.key);
    keys.insert(keys.end(), setting.aliases.begin(), setting.aliases.end());
  }
  const std::string folder = section.path.empty() ? "" : cat(section.path, ".");
  for (const Section& inner : sections()) {
    if (inner.path.empty() || !inner.path.starts_with(folder)) continue;
    const std::string_view rest = inner.path.substr(folder.size());
    if (rest.find('.') == std::string_view::npos) keys.emplace_back(rest);
  }
  return keys;
}

struct Guess {
  std::string_view rule;
  Words message;
  Words fix;
  std::vector<Edit> edits = {};
  std::string suggested = {};
};

std::vector<Edit> move_unless_there(const Reading& reading, const std::string& from, std::string_view to) {
  if (find_member_path(reading.document.root, to) != nullptr) return {{Edit::Kind::kRemove, from}};
  return {{Edit::Kind::kMove, from, std::string(to)}};
}

Guess guess_stray(const Reading& reading, const StrayKey& stray, const std::string& path) {
  Guess guess{"keys/another-tools", {std::string(stray.en), std::string(stray.zh)}, {"remove it", "删除它"}};
  if (stray.to.empty()) {
    guess.edits = {{Edit::Kind::kRemove, path}};
    return guess;
  }
  guess.fix = {cat("use ", stray.to), cat("改用 ", stray.to)};
  guess.suggested = stray.to;
  guess.edits = move_unless_there(reading, path, stray.to);
  if (!stray.value.empty()) {
    guess.edits = {{Edit::Kind::kRemove, path}};
    if (find_member_path(reading.document.root, stray.to) == nullptr) {
      guess.edits.push_back({Edit::Kind::kSet, std::string(stray.to), "", std::string(stray.value)});
    }
  }
  return guess;
}

Guess guess_misplaced(const Reading& reading, const std::string& path, std::string_view section, std::string_view to) {
  const std::string here = section.empty() ? "at the top level" : cat("inside ", section);
  return {
      "keys/misplaced",
      {cat("nothing reads this key ", here, "; it belongs to ", to), cat("写在这里没有任何代码会读；它应当是 ", to)},
      {cat("move it to ", to), cat("移动到 ", to)},
      move_unless_there(reading, path, to),
      std::string(to)};
}

Guess guess_misspelt(const Reading& reading, const std::string& path, const Section& section,
                     const std::string& meant) {
  const std::string target = path_in(section.path, meant);
  const bool taken = find_member_path(reading.document.root, target) != nullptr;
  Guess guess{"keys/misspelt",
              {cat("there is no key ", path, "; did you mean ", meant, "?"),
               cat("没有 ", path, " 这个键；是不是想写 ", meant, "？")},
              {cat("write ", meant), cat("改成 ", meant)}};
  guess.suggested = meant;
  if (!taken) guess.edits = {{Edit::Kind::kRename, path, meant}};
  return guess;
}

Guess make_guess(const Reading& reading, const Section& section, const Member& member, const std::string& path) {
  if (const StrayKey* stray = find_stray(section.path, member.key)) return guess_stray(reading, *stray, path);
  const auto places = places_of(member.key, reading.version);
  if (places.size() == 1) return guess_misplaced(reading, path, section.path, places.front());
  const Section* other = find_section_elsewhere(member.key);
  if (other != nullptr && member.value.is_object()) return guess_misplaced(reading, path, section.path, other->path);
  const std::string meant = nearest(member.key, keys_of(section, reading.version));
  if (!meant.empty()) return guess_misspelt(reading, path, section, meant);
  if (!places.empty()) {
    const std::string list = join(places, ", ");
    return {"keys/misplaced",
            {cat("nothing reads this key here; there is ", list), cat("写在这里没有任何代码会读；正确的位置有 ", list)},
            {"move it to the one that is meant", "移动到想要的那一处"}};
  }
  return {"keys/unknown",
          {cat("neither DeepSpeed nor weft knows ", path), cat("DeepSpeed 和 weft 都不认识 ", path)},
          {"remove it, or find its name in docs/settings.md", "删除它，或在 docs/settings.md 里查正确的名字"}};
}

}  // namespace

void report_unknown(Reading& reading, const Section& section, const Member& member) {
  const std::string path = path_in(section.path, member.key);
  // DeepSpeed drops what says "auto" before it looks at the keys.
  const bool refused = refuses_unknown(reading, section) && !member.value.is_auto();
  const std::string_view refuser = is_ours(path) ? "weft" : "DeepSpeed";
  if (is_comment_key(member.key) && !refused) return;
  if (is_comment_key(member.key)) {
    Problem& problem =
        report(reading, "keys/comment-refused", path, member.key_span,
               {cat(refuser, " refuses every key it does not know inside ", section.path, ", comments too"),
                cat("在 ", section.path, " 里，", refuser, " 拒绝任何不认识的键，包括注释键")},
               {"make it a // comment, or remove it", "改成 // 注释，或删除"});
    problem.edits = {{Edit::Kind::kRemove, path}};
    problem.deepspeed_refuses = true;
    return;
  }
  Guess guess = make_guess(reading, section, member, path);
  if (refused) {
    guess.message.en += cat("; ", refuser, " refuses unknown keys inside ", section.path);
    guess.message.zh += cat("；", section.path, " 里出现不认识的键，", refuser, " 会直接报错");
  } else {
    guess.message.en += "; DeepSpeed ignores it without a word";
    guess.message.zh += "；DeepSpeed 会悄悄忽略它";
  }
  Problem& problem = report(reading, guess.rule, path, member.key_span, guess.message, guess.fix);
  if (refused) problem.severity = Severity::kError;
  problem.deepspeed_refuses = refused;
  problem.current = reading.quoted(member.value.span);
  problem.suggested = guess.suggested;
  problem.edits = std::move(guess.edits);
}

void report_standing(Reading& reading, std::string_view path, const Member& member, Standing standing, Words why) {
  const auto say = [&](std::string_view rule, Words message, Words fix) {
    message.en += why.en;
    message.zh += why.zh;
    Problem& problem = report(reading, rule, path, member.key_span, std::move(message), std::move(fix));
    problem.current = reading.quoted(member.value.span);
  };
  switch (standing) {
    case Standing::kHonoured: return;
    case Standing::kIgnored:
      return say("keys/out-of-scope", {cat(path, " has no effect in weft: "), cat(path, " 在 weft 里没有作用：")},
                 {"it may stay: it does no harm", "可以保留，没有害处"});
    case Standing::kPlanned:
      return say("keys/not-yet", {cat("weft does not act on ", path, " yet: "), cat("weft 还不支持 ", path, "：")},
                 {"it may stay: training goes on without it", "可以保留：训练照常进行，只是没有它"});
    case Standing::kRefused:
      return say("keys/not-offered",
                 {cat("weft does not offer ", path, ", and leaving it out would change the training: "),
                  cat("weft 不提供 ", path, "，而忽略它会改变训练结果：")},
                 {"remove it, or train with DeepSpeed", "删除它，或继续用 DeepSpeed 训练"});
  }
}

}  // namespace weft::config
