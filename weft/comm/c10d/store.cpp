#include "weft/comm/c10d/store.h"

#include <c10/util/Logging.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "weft/base/text.h"
#include "weft/comm/c10d/bounded_caller.h"

namespace weft::comm {
namespace {

constexpr double kCallLimitS = 10;

using StorePtr = c10::intrusive_ptr<c10d::Store>;

StoreLost lost(const Endpoint& endpoint, const std::string& what) {
  return {ErrorKind::kEnvironment,
          {.title = cat("the store at ", to_text(endpoint), " is out of reach"),
           .what = what,
           .fix = "look for the end of the process that serves it, rank 0 or the launcher, in its own output"}};
}

// c10d prints a warning with a stack for every connection that ends; we throw what there is to say. Its log has one
// level for the whole process, so it is quiet only while a thread of ours is inside. TORCH_CPP_LOG_LEVEL brings all
// back.
class QuietLog {
 public:
  QuietLog() {
    const std::lock_guard lock(mutex());
    if (num_inside()++ > 0 || std::getenv("TORCH_CPP_LOG_LEVEL") != nullptr) return;
    level_before() = FLAGS_caffe2_log_level;
    FLAGS_caffe2_log_level = c10::GLOG_FATAL;
  }
  ~QuietLog() {
    const std::lock_guard lock(mutex());
    if (--num_inside() == 0 && std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = level_before();
  }
  QuietLog(const QuietLog&) = delete;
  QuietLog& operator=(const QuietLog&) = delete;

 private:
  // Never destroyed: a thread that is left behind may come out after the end of main.
  static std::mutex& mutex() {
    static auto* const kOne = new std::mutex;
    return *kOne;
  }
  static int& num_inside() {
    static int num = 0;
    return num;
  }
  static int& level_before() {
    static int level = 0;
    return level;
  }
};

std::vector<uint8_t> bytes_from(const std::string& text) { return {text.begin(), text.end()}; }
std::string text_from(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

c10d::TCPStoreOptions options_for(const Endpoint& endpoint, int listener, Deadline deadline) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(endpoint.port);
  options.isServer = listener >= 0;
  options.waitWorkers = false;
  options.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::clamp<std::chrono::nanoseconds>(deadline.remaining(), std::chrono::seconds(1), std::chrono::hours(1)));
  if (listener >= 0) options.masterListenFd = listener;
  return options;
}

}  // namespace

// One connection. c10d waits for answers without a limit, so no caller may do it itself.
class Store::Impl {
 public:
  Endpoint endpoint;
  bool is_server = false;
  StorePtr local;
  std::shared_ptr<StorePtr> remote;  // used by the caller's thread alone
  std::unique_ptr<BoundedCaller> caller;

  // The answer lives as long as the call may take, which can be longer than we wait.
  template <typename Answer>
  Answer ask(double limit_s, std::function<Answer(c10d::Store&)> question) {
    if (local) return question(*local);
    auto answer = std::make_shared<Answer>();
    bounded([answer, store = remote, question = std::move(question)] { *answer = question(**store); }, limit_s);
    return std::move(*answer);
  }

  void connect(int listener, Deadline deadline) {
    remote = std::make_shared<StorePtr>();
    caller = std::make_unique<BoundedCaller>([store = remote] { store->reset(); });
    const auto make = [store = remote, at = endpoint, listener, deadline] {
      *store = c10::make_intrusive<c10d::TCPStore>(at.host, options_for(at, listener, deadline));
    };
    bounded(make, std::max(0.1, std::chrono::duration<double>(deadline.remaining()).count()));
  }

 private:
  void bounded(const std::function<void()>& what, double limit_s) {
    const auto quietly = [what] {
      const QuietLog quiet;
      what();
    };
    if (!caller->call(quietly, limit_s)) throw lost(endpoint, caller->why());
  }
};

Store Store::in_process() {
  auto impl = std::make_shared<Impl>();
  impl->endpoint = {"127.0.0.1", 0};
  impl->local = c10::make_intrusive<c10d::HashStore>();
  return {std::move(impl), "", kCallLimitS};
}

Store Store::tcp(const Endpoint& endpoint, bool is_server, Deadline deadline) {
  auto impl = std::make_shared<Impl>();
  impl->endpoint = endpoint;
  impl->is_server = is_server;
  UniqueFd listener;
  if (is_server) {
    listener = listen_on(endpoint.port);
    impl->endpoint.port = port_of(listener.get());
  }
  await_listener(impl->endpoint, deadline);
  impl->connect(listener.release(), deadline);  // c10d closes it
  return {std::move(impl), "", kCallLimitS};
}

void Store::set(const std::string& key, const std::string& value) const {
  impl_->ask<bool>(limit_s_, [key = prefix_ + key, value](c10d::Store& store) {
    store.set(key, bytes_from(value));
    // c10d's set does not wait for the server, so a peer could look before it is there; an answer on the same connection
    // comes after it.
    return store.check({key});
  });
}

std::optional<std::string> Store::find(const std::string& key) const {
  using Found = std::optional<std::string>;
  return impl_->ask<Found>(limit_s_, [key = prefix_ + key](c10d::Store& store) {
    return store.check({key}) ? Found(text_from(store.get(key))) : Found();
  });
}

std::string Store::get(const std::string& key, Deadline deadline) const {
  auto pause = std::chrono::milliseconds(1);
  while (true) {
    if (auto value = find(key)) return std::move(*value);
    if (deadline.expired()) break;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(20));
  }
  throw Error(ErrorKind::kEnvironment, {.title = cat("nobody set '", key, "' in the store by the deadline"),
                                        .where = impl_->local ? "" : to_text(impl_->endpoint)});
}

std::vector<std::string> Store::get_all(const std::vector<std::string>& keys) const {
  std::vector<std::string> whole;
  for (const auto& key : keys) whole.push_back(prefix_ + key);
  return impl_->ask<std::vector<std::string>>(limit_s_, [whole](c10d::Store& store) {
    std::vector<std::string> values;
    for (const auto& value : store.multiGet(whole)) values.push_back(text_from(value));
    return values;
  });
}

std::string Store::compare_set(const std::string& key, const std::string& expected, const std::string& desired) const {
  return impl_->ask<std::string>(limit_s_, [key = prefix_ + key, expected, desired](c10d::Store& store) {
    return text_from(store.compareSet(key, bytes_from(expected), bytes_from(desired)));
  });
}

int64_t Store::add(const std::string& key, int64_t delta) const {
  return impl_->ask<int64_t>(limit_s_,
                             [key = prefix_ + key, delta](c10d::Store& store) { return store.add(key, delta); });
}

Store Store::with_prefix(const std::string& prefix) const { return {impl_, cat(prefix_, prefix, "/"), limit_s_}; }

Store Store::with_limit(double seconds) const { return {impl_, prefix_, seconds}; }

const Endpoint& Store::endpoint() const { return impl_->endpoint; }

bool Store::is_server() const { return impl_->is_server; }

std::string Store::own_address() const {
  if (impl_->local) return "127.0.0.1";
  std::string address = address_towards(impl_->endpoint);
  const bool meant_loopback = is_loopback(impl_->endpoint.host) || impl_->endpoint.host == "localhost";
  if (!address.empty() && (meant_loopback || !is_loopback(address))) return address;
  // Many hosts' own name leads to 127.0.1.1, where no other host finds them.
  const std::string outward = outward_address();
  return outward.empty() ? "127.0.0.1" : outward;
}

}  // namespace weft::comm
