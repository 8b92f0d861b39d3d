// FakeNames: names as a test wants them, instead of a name server. Its look-ups may go on in their
// threads when it is gone; silent ones end then.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "gossip/net/name_resolver.h"

namespace starling::gossip {

class FakeNames {
 public:
  FakeNames() = default;
  ~FakeNames() { speak(); }
  FakeNames(const FakeNames&) = delete;
  FakeNames& operator=(const FakeNames&) = delete;

  void set(const std::string& name, NameAnswer answer) {
    const std::lock_guard lock(state_->mutex);
    state_->answers[name] = std::move(answer);
  }
  // Nothing is answered of it until speak().
  void silence(const std::string& name) {
    const std::lock_guard lock(state_->mutex);
    state_->silent.insert(name);
  }
  void speak() {
    const std::lock_guard lock(state_->mutex);
    state_->silent.clear();
    state_->spoken.notify_all();
  }
  std::size_t asked() const {
    const std::lock_guard lock(state_->mutex);
    return state_->asked;
  }
  LookUp look_up() const {
    return [state = state_](const std::string& name) {
      std::unique_lock lock(state->mutex);
      ++state->asked;
      // So that a caller who waits for it fails, and does not hang.
      state->spoken.wait_for(lock, std::chrono::seconds(20),
                             [&] { return !state->silent.contains(name); });
      const auto known = state->answers.find(name);
      return known == state->answers.end() ? NameAnswer{{}, "unknown name"} : known->second;
    };
  }

 private:
  struct State {
    std::mutex mutex;  // guards the following
    std::condition_variable spoken;
    std::map<std::string, NameAnswer> answers;
    std::set<std::string> silent;
    std::size_t asked = 0;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace starling::gossip
