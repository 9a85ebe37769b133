#include "weft/engine/spread_store.h"

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "weft/base/hash.h"
#include "weft/base/text.h"
#include "weft/checkpoint/store_names.h"
#include "weft/checkpoint/store_writer.h"
#include "weft/engine/agree.h"
#include "weft/engine/file_passing.h"
#include "weft/engine/spread_store_impl.h"
#include "weft/monitor/host_name.h"

namespace weft::engine {
namespace {

constexpr std::string_view kProbePrefix = "here.";
constexpr const char* kNotSaved = "the checkpoint could not be saved";

}  // namespace

std::string new_id() {
  std::random_device random;
  return to_hex({.high = (uint64_t{random()} << 32) | random(), .low = (uint64_t{random()} << 32) | random()});
}

void throw_failures(const std::vector<std::string>& texts, const FailureText& failure) {
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (!texts[rank].starts_with(kFailed)) continue;
    throw Error(ErrorKind::kEnvironment, {.title = failure.title,
                                          .what = cat("rank ", rank, " ", failure.what, "\n", texts[rank].substr(1)),
                                          .where = failure.where,
                                          .fix = ""});
  }
}

SpreadStore::SpreadStore(comm::Group& group, c10::Device device, Env& env, std::string folder)
    : device_(device), env_(env), folder_(std::move(folder)), host_(this_host_name()), rank_(group.rank()) {
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
  throw_failures(texts, {.title = kNotSaved, .what = "could not write its part", .where = folder_});
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
  throw_failures(
      texts,
      {.title = kNotSaved, .what = "could not hand its part on, or put it together with the others", .where = folder_});
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
  throw_failures(exchange(group, mine), {.title = kNotSaved, .what = "could not commit the step", .where = folder_});
  if (leads() && request.keep) prune_after_commit(env_, folder_, *request.keep);
}

}  // namespace weft::engine
