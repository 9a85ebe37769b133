#include "weft/comm/world.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <unistd.h>

#include <cstdlib>

#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/comm/c10d/gloo_group.h"
#include "weft/comm/c10d/nccl_group.h"
#include "weft/comm/c10d/store.h"
#include "weft/comm/checking_group.h"
#include "weft/comm/faulty_group.h"
#include "weft/comm/hierarchical_group.h"
#include "weft/comm/host_identity.h"
#include "weft/comm/host_layout.h"
#include "weft/comm/init_settings.h"
#include "weft/comm/meeting.h"
#include "weft/comm/peer_lost.h"
#include "weft/comm/recording_group.h"
#include "weft/comm/shm_group.h"

namespace weft {
namespace {

using namespace comm;  // NOLINT(google-build-using-namespace): this is the room's front door
using config::Transport;

// What was found out about one run, on the way to its group.
struct Meeting {
  RankIdentity self;
  InitSettings settings;
  std::string run;  // names this attempt of this run on this host
  std::optional<Store> store;
  std::vector<int> host_of;  // by rank

  Deadline deadline() const { return Deadline::after(settings.join_deadline_s); }
  ShmGroupSpec shm_spec(const std::string& run_id, int rank, int world) const {
    return {.run_id = run_id,
            .name = "world",
            .rank = rank,
            .world = world,
            .deadline_s = settings.deadline_s,
            .join_deadline_s = settings.join_deadline_s};
  }
  GroupIdentity identity(const std::string& name) const {
    return {.name = name, .rank = self.rank, .world = self.world, .deadline_s = settings.deadline_s};
  }
};

// Ranks of one attempt agree on it, other runs of this host do not share it.
std::string run_name(const RankIdentity& self, const InitSettings& settings) {
  if (self.world == 1) return cat("alone-", ::getpid());
  std::string name = cat("uid-", ::getuid(), "/", self.run_id, "/", settings.attempt);
  if (self.master_port) return cat(name, "/", self.master_addr, ":", *self.master_port);
  // Only where all ranks are on one host: they have one launcher.
  return self.run_id.empty() ? cat(name, "/launcher-", ::getppid()) : name;
}

bool may_skip_store(const Meeting& meeting) {
  const Transport wanted = meeting.settings.transport;
  const bool on_host = meeting.settings.device == c10::DeviceType::CPU;
  return meeting.self.all_on_one_host() && (wanted == Transport::kShm || (wanted == Transport::kAuto && on_host));
}

void meet_through_store(Meeting& meeting) {
  const RankIdentity& self = meeting.self;
  if (self.world == 1) {
    meeting.store = Store::in_process();
    meeting.host_of = {0};
    return;
  }
  if (!self.master_port) {
    throw Error(ErrorKind::kInput, {.title = "the ranks have nowhere to meet",
                                    .what = "MASTER_PORT is not set, and this transport needs a network",
                                    .where = describe(self),
                                    .fix = "set MASTER_ADDR and MASTER_PORT, or start the ranks with `weft run`"});
  }
  const std::string address = self.master_addr.empty() ? "127.0.0.1" : self.master_addr;
  const bool serves = self.rank == 0 && !meeting.settings.agent_has_store;
  const Store store = Store::tcp({address, *self.master_port}, serves, meeting.deadline());
  meeting.store = store.with_prefix(cat("weft/", meeting.settings.attempt, "/"));
  meeting.host_of =
      numbered_by_appearance(meet(*meeting.store, self.rank, self.world, host_identity(), meeting.deadline()));
}

int num_devices(c10::DeviceType type) { return c10::impl::VirtualGuardImpl(type).deviceCount(); }

bool each_has_a_device(const HostLayout& layout) {
  for (int host = 0; host < layout.num_hosts(); ++host) {
    if (static_cast<int>(layout.ranks_of(host).size()) > num_devices(c10::DeviceType::CUDA)) return false;
  }
  return true;
}

Transport choose(const Meeting& meeting, const HostLayout& layout) {
  const auto& settings = meeting.settings;
  if (settings.transport == Transport::kShm && layout.num_hosts() > 1) {
    throw Error(ErrorKind::kInput,
                {.title = "the shm transport is for the ranks of one host",
                 .what = cat("these ", meeting.self.world, " ranks are on ", layout.num_hosts(), " hosts"),
                 .where = "weft.transport, WEFT_TRANSPORT",
                 .fix = "use \"auto\": shared memory inside the hosts, the network between them"});
  }
  if (settings.transport != Transport::kAuto) return settings.transport;
  if (settings.device != c10::DeviceType::CPU) {
    return has_nccl() && each_has_a_device(layout) ? Transport::kNccl : Transport::kGloo;
  }
  return layout.num_hosts() == meeting.self.world && meeting.self.world > 1 ? Transport::kGloo : Transport::kShm;
}

// A neighbour that does not come is named by its number in the world.
std::shared_ptr<Group> make_inside_host(const ShmGroupSpec& spec, const std::vector<int>& ranks) {
  try {
    return make_shm_group(spec);
  } catch (const PeerLost& lost) {
    throw PeerLost(renumbered(lost.loss(), ranks));
  }
}

std::shared_ptr<Group> make_on_hosts(const Meeting& meeting, const HostLayout& layout) {
  const int rank = meeting.self.rank, host = layout.host_of(rank);
  const auto num_neighbours = static_cast<int>(layout.ranks_of(host).size());
  ShmGroupSpec spec = meeting.shm_spec(cat(meeting.run, "/host-", host), layout.local_rank_of(rank), num_neighbours);
  if (layout.num_hosts() == 1) return make_shm_group(spec);
  spec.name = cat("world/host-", host);
  auto flat = make_gloo_group(meeting.identity("world"), *meeting.store, meeting.deadline());
  auto watch = std::make_shared<RollCall>(meeting.identity("watch"), *meeting.store, meeting.deadline());
  return make_hierarchical_group(std::move(flat), make_inside_host(spec, layout.ranks_of(host)), meeting.host_of,
                                 std::move(watch));
}

std::shared_ptr<Group> make_group(const Meeting& meeting, const HostLayout& layout) {
  if (!meeting.store) return make_shm_group(meeting.shm_spec(meeting.run, meeting.self.rank, meeting.self.world));
  switch (choose(meeting, layout)) {
    case Transport::kNccl:
      return make_nccl_group(meeting.identity("world"), *meeting.store, layout.local_rank_of(meeting.self.rank),
                             meeting.deadline());
    case Transport::kGloo: return make_gloo_group(meeting.identity("world"), *meeting.store, meeting.deadline());
    case Transport::kShm:
    case Transport::kAuto: break;
  }
  return make_on_hosts(meeting, layout);
}

std::shared_ptr<Group> wrapped(std::shared_ptr<Group> group, const Meeting& meeting, const std::string& run_id) {
  const InitSettings& settings = meeting.settings;
  if (!settings.faults.empty()) group = make_faulty_group(std::move(group), parse_faults(settings.faults));
  if (settings.check_calls) group = make_checking_group(std::move(group));
  if (group->world() == 1) return group;
  const FlightOwner owner{.rank = meeting.self.rank, .world = meeting.self.world, .run_id = run_id};
  return make_recording_group(std::move(group), std::make_shared<FlightLog>(owner, settings.flight_dir));
}

}  // namespace

World init(const InitOptions& options) {
  Meeting meeting;
  const Lookup lookup = options.environment ? options.environment : read_environment();
  meeting.self = read_rank_environment(lookup);
  meeting.settings = read_init_settings(options, lookup, meeting.self);
  const RankIdentity& self = meeting.self;
  if (self.world > 1) set_log_rank(self.rank);
  meeting.run = run_name(self, meeting.settings);
  if (may_skip_store(meeting)) {
    meeting.host_of.assign(static_cast<size_t>(self.world), 0);
  } else {
    meet_through_store(meeting);
  }
  const HostLayout layout(meeting.host_of);
  World world;
  world.run_id = self.run_id.empty() ? meeting.run : self.run_id;
  world.group = wrapped(make_group(meeting, layout), meeting, world.run_id);
  world.rank = self.rank;
  world.size = self.world;
  world.local_rank = layout.local_rank_of(self.rank);
  world.local_size = static_cast<int>(layout.ranks_of(layout.host_of(self.rank)).size());
  world.num_hosts = layout.num_hosts();
  if (meeting.settings.device != c10::DeviceType::CPU) {
    const int index = world.local_rank % std::max(1, num_devices(meeting.settings.device));
    world.device = c10::Device(meeting.settings.device, static_cast<c10::DeviceIndex>(index));
  }
  // A program on its own has nobody to be told about.
  if (self.rank == 0 && self.world > 1) {
    log_info(describe(self), "; ", self.world, " ranks on ", world.num_hosts, world.num_hosts == 1 ? " host" : " hosts",
             ", transport ", world.group->transport());
  }
  return world;
}

}  // namespace weft
