// Our Store as c10d wants one, for its process groups to find each other through. Its waits end with the deadline it
// was made with, or when the roll call says that waiting is pointless; c10d's own would take minutes.
//
// For .cpp files that include c10d anyway. Threads: any. Failure: Error, StoreLost, PeerLost.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "weft/comm/c10d/store.h"

namespace weft::comm {

class StoreForC10d final : public c10d::Store {
 public:
  // `check` throws when nobody will come any more.
  StoreForC10d(comm::Store store, Deadline deadline, std::function<void()> check)
      : store_(std::move(store)), deadline_(deadline), check_(std::move(check)) {}

  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::make_intrusive<StoreForC10d>(store_, deadline_, check_);
  }
  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    store_.set(key, {value.begin(), value.end()});
  }
  std::vector<uint8_t> get(const std::string& key) override {
    wait({key});
    const std::string value = store_.get(key, deadline_);
    return {value.begin(), value.end()};
  }
  int64_t add(const std::string& key, int64_t value) override { return store_.add(key, value); }
  bool deleteKey(const std::string& /*key*/) override { return false; }
  bool check(const std::vector<std::string>& keys) override {
    for (const auto& key : keys)
      if (!store_.find(key)) return false;
    return true;
  }
  int64_t getNumKeys() override { return 0; }
  void wait(const std::vector<std::string>& keys) override {
    while (!check(keys)) {
      check_();
      if (deadline_.expired()) store_.get(keys.front(), deadline_);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& /*timeout*/) override { wait(keys); }

 private:
  comm::Store store_;
  Deadline deadline_;
  std::function<void()> check_;
};

}  // namespace weft::comm
