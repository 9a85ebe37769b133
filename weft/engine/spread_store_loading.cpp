// Of a spread store: which steps there are, who has what of one, and how the rest comes here.
#include <algorithm>
#include <map>
#include <utility>

#include "weft/base/hash.h"
#include "weft/base/text.h"
#include "weft/checkpoint/store.h"
#include "weft/checkpoint/store_names.h"
#include "weft/checkpoint/store_writer.h"
#include "weft/engine/agree.h"
#include "weft/engine/file_passing.h"
#include "weft/engine/spread_store.h"
#include "weft/engine/spread_store_impl.h"

namespace weft::engine {
namespace {

constexpr const char* kNotLoaded = "the checkpoint could not be loaded";

std::vector<std::string> filled_lines(const std::string& text) {
  std::vector<std::string> out = split(text, '\n');
  std::erase(out, "");
  return out;
}

}  // namespace

std::vector<std::string> SpreadStore::step_names(comm::Group& group) const {
  std::string mine;
  if (leads()) {
    mine = said_by([&] {
      std::string out = "0\n";
      const auto places = checkpoint::list_steps(env_, folder_);
      // The first is the one that was committed last.
      if (!places.empty()) out = cat(places.front().step, "\n");
      for (const auto& place : places) out += cat(place.folder.substr(folder_.size() + 1), "\n");
      return out;
    });
  }
  int64_t latest = 0;
  std::map<std::string, int64_t> steps;
  for (const std::string& text : exchange(group, mine)) {
    if (text.starts_with(kFailed)) continue;  // others may have it all
    const std::vector<std::string> lines = filled_lines(text);
    for (size_t i = 0; i < lines.size(); ++i) {
      if (i == 0) latest = std::max<int64_t>(latest, std::stoll(lines[0]));
      const auto plain = checkpoint::step_of(lines[i]);
      const auto step = plain ? plain : checkpoint::step_of(lines[i], checkpoint::kOldSuffix);
      if (step) steps[lines[i]] = *step;
    }
  }
  std::vector<std::string> names;
  for (const auto& [name, step] : steps) names.push_back(name);
  std::ranges::stable_sort(
      names, {}, [&](const std::string& name) { return std::pair(steps.at(name) > latest, -steps.at(name)); });
  return names;
}

// What the leader of a folder says of one step.
struct SpreadStore::Holding {
  std::string manifest = {};                        // its hash; "": it has none
  std::vector<std::string> files = {}, hosts = {};  // all of the manifest's
  std::set<std::string> here = {};

  static Holding of(const std::string& text) {
    Holding out;
    const std::vector<std::string> lines = filled_lines(text);
    if (lines.empty() || text.starts_with(kFailed)) return out;
    out.manifest = lines[0];
    for (size_t i = 1; i < lines.size(); ++i) {
      const std::vector<std::string> words = split(lines[i], '\t');
      out.files.push_back(words.at(1));
      out.hosts.push_back(words.at(2));
      if (words.at(0) == "1") out.here.insert(words.at(1));
    }
    return out;
  }
};

struct SpreadStore::Choice {
  std::vector<Holding> by_folder = {};
  std::string hash = {};  // of the manifest that counts; "": none does
  checkpoint::Manifest manifest = {};
  std::string text = {};  // of the manifest
  std::optional<Error> missing = {};

  bool has(size_t folder) const { return by_folder[folder].manifest == hash; }
  bool has(size_t folder, const std::string& file) const {
    return has(folder) && by_folder[folder].here.contains(file);
  }
};

struct SpreadStore::Transfer {
  const checkpoint::StoredFile* file = nullptr;
  size_t from = 0, to = 0;  // folders
};

std::string SpreadStore::holding_text(const std::string& name) const {
  if (!leads()) return "";
  return said_by([&] {
    const std::string path = cat(folder_, "/", name, "/", checkpoint::kManifestName);
    const std::string text = checkpoint::read_stored(env_, path, checkpoint::kMaxManifestBytes);
    const checkpoint::Manifest manifest = checkpoint::parse_manifest(text, path);
    std::string out = cat(to_hex(hash128(bytes_of(text))), "\n");
    for (const auto& file : manifest.files) {
      const auto info = env_.stat(cat(folder_, "/", name, "/", file.name));
      const bool is_here = info && info->kind == FileKind::kFile && !info->is_link && info->bytes == file.bytes;
      out += cat(is_here ? "1\t" : "0\t", file.name, "\t", file.host, "\n");
    }
    return out;
  });
}

SpreadStore::Choice SpreadStore::choose(comm::Group& group, const std::string& name) const {
  Choice out;
  const std::vector<std::string> texts = exchange(group, holding_text(name));
  for (const auto& members : members_) out.by_folder.push_back(Holding::of(texts[static_cast<size_t>(members[0])]));
  std::vector<std::string> missing;
  for (const Holding& one : out.by_folder) {
    if (one.manifest.empty()) continue;
    out.hash = one.manifest;
    std::vector<std::string> lacks;
    for (size_t i = 0; i < one.files.size(); ++i) {
      bool is_somewhere = false;
      for (size_t folder = 0; folder < members_.size(); ++folder)
        is_somewhere = is_somewhere || out.has(folder, one.files[i]);
      if (!is_somewhere) lacks.push_back(cat(one.files[i], " of host ", one.hosts[i]));
    }
    if (lacks.empty()) break;
    out.hash.clear();
    missing = lacks;
  }
  if (out.hash.empty()) {
    for (const std::string& text : texts) {
      if (missing.empty() && text.starts_with(kFailed)) missing.push_back(text.substr(1));
    }
    out.missing = Error(ErrorKind::kInput, {.title = "the checkpoint is not whole",
                                            .what = cat("no host has ", join(missing, ", ")),
                                            .where = cat(folder_, "/", name),
                                            .fix = ""});
    return out;
  }
  const bool is_first = leads() && out.has(mine_) &&
                        std::ranges::find(out.by_folder, out.hash, &Holding::manifest) - out.by_folder.begin() ==
                            static_cast<std::ptrdiff_t>(mine_);
  const std::string path = cat(folder_, "/", name, "/", checkpoint::kManifestName);
  const std::string mine =
      is_first ? said_by([&] { return checkpoint::read_stored(env_, path, checkpoint::kMaxManifestBytes); }) : "";
  for (const std::string& text : exchange(group, mine)) out.text += text;
  out.manifest = checkpoint::parse_manifest(out.text, path);
  return out;
}

std::vector<SpreadStore::Transfer> SpreadStore::plan_transfers(comm::Group& group, const Choice& choice,
                                                               const Needed& needed) const {
  std::string mine;
  for (const std::string& name : needed(choice.manifest)) mine += cat(name, "\n");
  const std::vector<std::string> texts = exchange(group, mine);
  std::vector<Transfer> out;
  for (size_t to = 0; to < members_.size(); ++to) {
    std::set<std::string> wanted;
    for (const int rank : members_[to]) {
      for (const std::string& name : filled_lines(texts[static_cast<size_t>(rank)])) wanted.insert(name);
    }
    for (const auto& file : choice.manifest.files) {
      if (!wanted.contains(file.name) || choice.has(to, file.name)) continue;
      size_t from = 0;
      while (!choice.has(from, file.name)) ++from;
      out.push_back({.file = &file, .from = from, .to = to});
    }
  }
  return out;
}

// From and to where, here.
struct SpreadStore::Moving {
  std::string from = {};                         // the step's folder, where it is here
  std::string into = {};                         // that folder, or one that readers do not look at
  std::string unreadable = {}, unwritable = {};  // problems
};

void SpreadStore::carry_out(comm::Group& group, const std::vector<Transfer>& transfers, Moving& moving) const {
  for (const Transfer& transfer : transfers) {
    if (!leads()) break;
    const checkpoint::StoredFile& file = *transfer.file;
    if (transfer.from == mine_) {
      const PassedFile passed{.path = cat(moving.from, "/", file.name), .bytes = file.bytes};
      const Passed sent = send_file(group, device_, env_, passed, members_[transfer.to].front());
      if (!sent.whole) moving.unreadable = sent.problem;
    }
    if (transfer.to != mine_) continue;
    const std::string part = cat(moving.into, "/", file.name, checkpoint::kTempSuffix);
    const Passed got =
        receive_file(group, device_, env_, {.path = part, .bytes = file.bytes}, members_[transfer.from].front());
    if (!got.problem.empty()) moving.unwritable = got.problem;
    if (!got.whole) continue;
    const std::string said = said_by([&] {
      env_.rename(part, cat(moving.into, "/", file.name));
      return std::string();
    });
    if (!said.empty()) moving.unwritable = said;
  }
}

SpreadStore::Found SpreadStore::bring(comm::Group& group, const std::string& name, const Needed& needed) const {
  const Choice choice = choose(group, name);
  const std::string here = cat(folder_, "/", name), plain = checkpoint::step_name(choice.manifest.step);
  if (choice.missing) return {.folder = here, .missing = choice.missing};
  const std::vector<Transfer> transfers = plan_transfers(group, choice, needed);
  const bool has_step = choice.has(mine_);
  const std::string final_folder = has_step ? here : cat(folder_, "/", plain);
  Moving moving{.from = here, .into = has_step ? here : cat(final_folder, checkpoint::kTempSuffix)};
  const bool makes_step =
      leads() && !has_step && std::ranges::any_of(transfers, [&](const Transfer& one) { return one.to == mine_; });
  // Whoever cannot write takes part all the same: others wait for it.
  std::string mine = said_by([&] {
    if (makes_step && env_.stat(moving.into)) checkpoint::remove_flat_folder(env_, moving.into);
    if (makes_step) make_folders_durably(env_, moving.into);
    return std::string();
  });
  carry_out(group, transfers, moving);
  if (mine.empty() && !moving.unwritable.empty()) mine = cat(kFailed, moving.unwritable);
  throw_failures(
      exchange(group, mine),
      {.title = kNotLoaded, .what = "could not write what it needs of another host's", .where = final_folder});
  const std::vector<std::string> unreadable = exchange(group, moving.unreadable);
  for (size_t rank = 0; rank < unreadable.size(); ++rank) {
    if (unreadable[rank].empty()) continue;
    const ErrorText text{.title = "the checkpoint is not whole",
                         .what = cat("rank ", rank, " cannot read what others need of it\n", unreadable[rank]),
                         .where = here,
                         .fix = ""};
    return {.folder = here, .missing = Error(ErrorKind::kInput, text)};
  }
  mine = said_by([&] {
    if (!makes_step) return std::string();
    publish_file(env_, cat(moving.into, "/", checkpoint::kManifestName), bytes_of(choice.text));
    if (env_.stat(final_folder)) checkpoint::discard_folder(env_, folder_, plain);
    env_.rename(moving.into, final_folder);
    env_.sync_folder(folder_);
    return std::string();
  });
  throw_failures(
      exchange(group, mine),
      {.title = kNotLoaded, .what = "could not write what it needs of another host's", .where = final_folder});
  return {.folder = final_folder};
}

}  // namespace weft::engine
