#include "weft/engine/spread_store.h"

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "weft/base/hash.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/checkpoint/kill_points.h"
#include "weft/checkpoint/prune.h"
#include "weft/checkpoint/store.h"
#include "weft/checkpoint/store_names.h"
#include "weft/checkpoint/store_writer.h"
#include "weft/comm/host_name.h"
#include "weft/engine/agree.h"
#include "weft/engine/file_passing.h"

namespace weft::engine {
namespace {

constexpr char kFailed = '!';  // before what a rank says went wrong
constexpr std::string_view kProbePrefix = "here.";

std::string new_id() {
  std::random_device random;
  return to_hex({.high = (uint64_t{random()} << 32) | random(), .low = (uint64_t{random()} << 32) | random()});
}

template <typename Work>
std::string said_by(const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    return cat(kFailed, error.what());
  }
}

// One rank's trouble is everybody's.
void throw_failures(const std::vector<std::string>& texts, std::string_view what, const std::string& where) {
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (!texts[rank].starts_with(kFailed)) continue;
    throw Error(ErrorKind::kEnvironment, {.title = "the checkpoint could not be saved",
                                          .what = cat("rank ", rank, " ", what, "\n", texts[rank].substr(1)),
                                          .where = where,
                                          .fix = ""});
  }
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out = split(text, '\n');
  std::erase(out, "");
  return out;
}

}  // namespace

SpreadStore::SpreadStore(comm::Group& group, c10::Device device, Env& env, std::string folder)
    : device_(device), env_(env), folder_(std::move(folder)), host_(comm::host_name()), rank_(group.rank()) {
  look_around(group);
}

std::vector<std::string> SpreadStore::exchange(comm::Group& group, const std::string& mine) const {
  return exchange_texts(group, mine, device_);
}

// Whoever sees the other's mark sees its folder.
void SpreadStore::look_around(comm::Group& group) {
  const std::string id = exchange(group, new_id())[0];
  const auto mark_of = [&](int rank) { return cat(folder_, "/", kProbePrefix, id, ".", rank); };
  bool has_mark = true;
  try {
    make_folders_durably(env_, folder_);
    env_.open(mark_of(rank_), OpenMode::kCreateNew);
  } catch (const Error&) {
    has_mark = false;  // what is wrong with it comes out when it is written to
  }
  exchange(group, "");
  int leader = rank_;
  for (int rank = 0; rank < rank_ && has_mark && leader == rank_; ++rank) {
    if (env_.stat(mark_of(rank))) leader = rank;
  }
  const std::vector<std::string> leaders = exchange(group, cat(leader));
  if (has_mark) env_.remove_file(mark_of(rank_));
  std::map<int, size_t> places;
  for (size_t rank = 0; rank < leaders.size(); ++rank) {
    const auto [at, is_new] = places.emplace(std::stoi(leaders[rank]), members_.size());
    if (is_new) members_.emplace_back();
    members_[at->second].push_back(static_cast<int>(rank));
  }
  mine_ = places.at(leader);
}

// --- Saving ----------------------------------------------------------------------------------------------------------

// In the folder after its own, by turns.
int SpreadStore::receiver_of(int rank) const {
  for (size_t i = 0; i < members_.size(); ++i) {
    const auto found = std::ranges::find(members_[i], rank);
    if (found == members_[i].end()) continue;
    const std::vector<int>& next = members_[(i + 1) % members_.size()];
    return next[static_cast<size_t>(found - members_[i].begin()) % next.size()];
  }
  return rank;
}

std::vector<checkpoint::Part> SpreadStore::write_parts(
    comm::Group& group, const checkpoint::SaveRequest& request,
    const std::function<void(checkpoint::RankFileWriter&)>& fill) const {
  const std::string mine = said_by([&] {
    if (leads()) checkpoint::sweep_store(env_, folder_, request.step);
    checkpoint::Part part = write_rank_file(env_, folder_, request, fill);
    part.file.host = host_;
    return render_part(part);
  });
  const std::vector<std::string> texts = exchange(group, mine);
  throw_failures(texts, "could not write its part", folder_);
  std::vector<checkpoint::Part> out;
  for (const std::string& text : texts) out.push_back(checkpoint::parse_part(text, folder_));
  return out;
}

// All in the order of the senders: nobody waits for one who waits for it.
std::string SpreadStore::pass_files(comm::Group& group, const std::string& folder,
                                    const std::vector<checkpoint::Part>& parts) const {
  std::string problem;
  for (int from = 0; from < group.world(); ++from) {
    const checkpoint::StoredFile& file = parts[static_cast<size_t>(from)].file;
    const PassedFile passed{.path = cat(folder, "/", file.name), .bytes = file.bytes};
    const int to = receiver_of(from);
    Passed done;
    if (rank_ == from) done = send_file(group, device_, env_, passed, to);
    if (rank_ == to) done = receive_file(group, device_, env_, passed, from);
    if (problem.empty()) problem = done.problem;
  }
  return problem;
}

bool SpreadStore::is_in_mine(const checkpoint::StoredFile& file, const std::vector<checkpoint::Part>& parts,
                             Passing passing) const {
  const auto part = std::ranges::find(parts, file.name, [](const checkpoint::Part& p) { return p.file.name; });
  const auto rank = static_cast<int>(part - parts.begin());
  const auto has = [&](int one) { return std::ranges::find(members_[mine_], one) != members_[mine_].end(); };
  return has(rank) || (passing == Passing::kNext && has(receiver_of(rank)));
}

std::string SpreadStore::manifest_from_first(comm::Group& group, const checkpoint::SaveRequest& request,
                                             const std::vector<checkpoint::Part>& parts,
                                             const std::string& problem) const {
  const std::string mine = said_by([&]() -> std::string {
    if (!problem.empty()) return cat(kFailed, problem);
    if (rank_ != 0) return "";
    checkpoint::Manifest head = request.head;
    head.step = request.step;
    head.world = request.world;
    return render_manifest(merge_parts(std::move(head), parts, folder_));
  });
  const std::vector<std::string> texts = exchange(group, mine);
  throw_failures(texts, "could not hand its part on, or put it together with the others", folder_);
  return texts[0];
}

void SpreadStore::save(comm::Group& group, const checkpoint::SaveRequest& request,
                       const std::function<void(checkpoint::RankFileWriter& writer)>& fill, Passing passing) const {
  const std::vector<checkpoint::Part> parts = write_parts(group, request, fill);
  const std::string temp = cat(folder_, "/", checkpoint::step_name(request.step), checkpoint::kTempSuffix);
  const std::string problem = passing == Passing::kNext ? pass_files(group, temp, parts) : "";
  const std::string text = manifest_from_first(group, request, parts, problem);
  const std::string mine = said_by([&]() -> std::string {
    if (!leads()) return "";
    commit_manifest(env_, folder_, checkpoint::parse_manifest(text, temp),
                    [&](const checkpoint::StoredFile& file) { return is_in_mine(file, parts, passing); });
    return "";
  });
  // Before this, one folder may have the new step while another has only the one before.
  throw_failures(exchange(group, mine), "could not commit the step", folder_);
  if (!leads() || !request.keep) return;
  pass(checkpoint::KillPoint::kPruneBegin);
  try {
    prune_store(env_, folder_, *request.keep);
  } catch (const Error& error) {
    log_warn("old checkpoints could not be removed\n", error.what());
  }
}

// --- Loading ---------------------------------------------------------------------------------------------------------

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
    const std::vector<std::string> lines = lines_of(text);
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
    const std::vector<std::string> lines = lines_of(text);
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
      for (const std::string& name : lines_of(texts[static_cast<size_t>(rank)])) wanted.insert(name);
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
  throw_failures(exchange(group, mine), "could not write what it needs of another host's", final_folder);
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
  throw_failures(exchange(group, mine), "could not write what it needs of another host's", final_folder);
  return {.folder = final_folder};
}

}  // namespace weft::engine
