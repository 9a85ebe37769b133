#include "weft/comm/fabric/rendezvous.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "weft/base/env.h"
#include "weft/base/hash.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/comm/fabric/local_socket.h"

namespace weft::fabric {
namespace {

constexpr uint64_t kMagic = 0x7765'6674'2066'6162;  // "weft fab"
constexpr uint32_t kProtocol = 2;                   // messages and control block

struct Hello {
  uint64_t magic = kMagic;
  uint32_t protocol = kProtocol;
  int32_t rank = -1, world = 0;
};

struct Welcome {
  uint64_t magic = kMagic;
  uint32_t protocol = kProtocol;
  uint32_t refused = 0;
  char why[192] = {};
};

// Goes with the descriptor of a segment, or says with `code` why there is none.
struct Grant {
  uint64_t bytes = 0;
  int32_t code = 0;
};

std::string address_of(const Membership& self) { return cat("weft-fabric-", to_hex(hash128(bytes_of(self.run_id)))); }

std::string where(const Membership& self) { return cat("rank ", self.rank, " of run '", self.run_id, "'"); }

// Far beyond any host; the pieces of a staging slot still have room for a cache line each.
constexpr int kMaxWorld = 1024;

void check_membership(const Membership& self) {
  if (self.world >= 1 && self.world <= kMaxWorld && self.rank >= 0 && self.rank < self.world) return;
  throw Error(ErrorKind::kInput,
              {.title = "there is no such rank",
               .what = cat("rank ", self.rank, " in a world of ", self.world),
               .where = where(self),
               .fix = cat("number the ranks from 0 to the world's size less one; a host takes ", kMaxWorld)});
}

Error two_hosts(const Membership& self) {
  return Error(ErrorKind::kInput, {.title = "two ranks of this run have the number 0",
                                   .what = "another process on this host is rank 0 of the same run",
                                   .where = where(self),
                                   .fix = "give each rank a number of its own, and each run a run id of its own"});
}

Error no_host(const Membership& self, std::string_view what) {
  return Error(ErrorKind::kEnvironment,
               {.title = cat("rank 0 of ", self.world, " never came"),
                .what = std::string(what),
                .where = where(self),
                .fix = "start rank 0 on this host, in the same network namespace, with the same run id"});
}

UniqueFd connect_before(const Membership& self, Deadline deadline) {
  using std::chrono::milliseconds;
  for (milliseconds pause{1}; !deadline.expired(); pause = std::min(2 * pause, milliseconds(kLookInterval))) {
    if (auto socket = connect_local(address_of(self))) return std::move(*socket);
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, deadline.remaining()));
  }
  throw no_host(self, "nobody listens for this run, or its ranks are complete already");
}

std::string why_not(const Hello& hello, int world, const std::vector<UniqueFd>& sockets) {
  if (hello.protocol != kProtocol) return cat("it speaks protocol ", hello.protocol, ", rank 0 speaks ", kProtocol);
  if (hello.world != world) return cat("it expects ", hello.world, " ranks, rank 0 expects ", world);
  if (hello.rank < 0 || hello.rank >= world) return cat("there is no rank ", hello.rank, " among ", world);
  if (hello.rank == 0 || sockets[static_cast<size_t>(hello.rank)]) return cat("two ranks have the number ", hello.rank);
  return "";
}

}  // namespace

Rendezvous::Rendezvous(const Membership& self, Deadline deadline) {
  check_membership(self);
  self.rank == 0 ? host(self, deadline) : attend(self, deadline);
  control_->begin({Operation::kJoin});
  control_->barrier(deadline);
  control_->close_fd();
}

void Rendezvous::host(const Membership& self, Deadline deadline) {
  auto listener = listen_local(address_of(self));
  if (!listener) throw two_hosts(self);
  control_ =
      std::make_unique<Control>(Segment::create(Control::bytes_for(self.world), "weft-fabric-control"), 0, self.world);
  sockets_.resize(static_cast<size_t>(self.world));
  const auto missing = [&] { return std::count_if(sockets_.begin() + 1, sockets_.end(), [](auto& s) { return !s; }); };
  while (missing() > 0) {
    if (wait_readable(listener->get(),
                      Deadline::after(std::min<std::chrono::nanoseconds>(kLookInterval, deadline.remaining())))) {
      while (auto socket = accept_local(listener->get())) admit(std::move(*socket));
    }
    control_->look_after_peers(deadline);
  }
}

void Rendezvous::admit(UniqueFd socket) {
  Hello hello;
  UniqueFd none;
  // A rank says hello in the moment it connects. One that does not is no rank, or is past helping.
  const Status heard = receive_message(socket.get(), hello, none, Deadline::after(1.0));
  if (heard != Status::kOk || hello.magic != kMagic) return;
  const std::string why = why_not(hello, control_->world(), sockets_);
  if (!why.empty()) refuse(socket.get(), hello.rank, why);
  send_message(socket.get(), Welcome{}, control_->fd());
  sockets_[static_cast<size_t>(hello.rank)] = std::move(socket);
}

// Numbers that clash leave no way to tell who is right, so the run ends for all.
void Rendezvous::refuse(int socket, int rank, const std::string& why) {
  Welcome answer{.refused = 1};
  std::memcpy(answer.why, why.data(), std::min(why.size(), sizeof answer.why - 1));
  send_message(socket, answer);
  Loss loss{
      .kind = LossKind::kRefused, .rank = rank, .world = control_->world(), .found_by = 0, .during = Operation::kJoin};
  loss.set_detail(why);
  control_->give_up(loss);
}

void Rendezvous::attend(const Membership& self, Deadline deadline) {
  UniqueFd socket = connect_before(self, deadline);
  Welcome welcome;
  UniqueFd block;
  if (send_message(socket.get(), Hello{.rank = self.rank, .world = self.world}) != Status::kOk ||
      receive_message(socket.get(), welcome, block, deadline) != Status::kOk || welcome.magic != kMagic) {
    throw no_host(self, "it listened, but gave no answer");
  }
  if (welcome.refused != 0) {
    Loss loss{
        .kind = LossKind::kRefused, .rank = self.rank, .world = self.world, .found_by = 0, .during = Operation::kJoin};
    loss.set_detail(welcome.why);
    throw_loss(loss);
  }
  control_ = std::make_unique<Control>(Segment::adopt(std::move(block), Control::bytes_for(self.world)), self.rank,
                                       self.world);
  sockets_.push_back(std::move(socket));
}

Segment Rendezvous::share_segment(size_t bytes, const std::string& name, Backing backing, Deadline deadline) {
  Segment segment;
  control_->publish_code(0);
  try {
    segment = control_->rank() == 0 ? hand_out(bytes, name) : take_in(bytes, deadline);
    if (segment.bytes() > 0 && backing == Backing::kNow) {
      const size_t share = bytes / static_cast<size_t>(control_->world());
      segment.populate(share * static_cast<size_t>(control_->rank()), share);
    }
  } catch (const IoError& refused) {
    control_->publish_code(refused.code());
  }
  control_->barrier(deadline);
  control_->check_agreement();
  int failed = 0;
  while (failed < control_->world() && control_->code_of(failed) == 0) ++failed;
  const int code = failed < control_->world() ? control_->code_of(failed) : 0;
  // Nobody may go on and publish another code while a peer still reads this one.
  control_->barrier(deadline);
  if (code != 0) throw IoError(cat("share ", format_bytes(bytes), " between ranks"), cat("rank ", failed), code);
  segment.close_fd();
  return segment;
}

Segment Rendezvous::hand_out(size_t bytes, const std::string& name) {
  Segment segment;
  Grant grant{.bytes = bytes};
  try {
    segment = Segment::create(bytes, name);
  } catch (const IoError& refused) {
    grant.code = refused.code();
    control_->publish_code(refused.code());
  }
  // A rank that cannot be reached is missed in the barrier, which also knows why.
  for (const UniqueFd& socket : sockets_) {
    if (socket) send_message(socket.get(), grant, segment.fd());
  }
  return segment;
}

Segment Rendezvous::take_in(size_t bytes, Deadline deadline) {
  const int socket = sockets_.front().get();
  while (!wait_readable(socket, Deadline::after(kLookInterval))) control_->look_after_peers(deadline);
  Grant grant;
  UniqueFd file;
  if (receive_message(socket, grant, file, deadline) != Status::kOk) {
    control_->look_after_peers(deadline);
    control_->give_up(control_->loss_of(0, LossKind::kDied));
  }
  // Sizes that differ are for check_agreement to tell.
  return file && grant.bytes == bytes ? Segment::adopt(std::move(file), bytes) : Segment();
}

}  // namespace weft::fabric
