// StatusRole: the status server beside a peer, on a thread of its own, as [status] says. The peer
// trains the same with it and without: an address that is taken is told in the log, and that is
// all.
//
// Destroy it when nobody will call the outlet again.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/device.h"
#include "base/result.h"
#include "gossip/net/identity.h"
#include "peer/config/config.h"
#include "peer/status/status_server.h"

namespace starling::peer {

// What a report says that never changes: who this is, with what, within which limits.
nlohmann::json status_facts(const PeerConfig& config, const gossip::Identity& identity,
                            std::string_view device);

class StatusRole {
 public:
  // An error only for a setting that can never work.
  static Result<std::unique_ptr<StatusRole>> start(const PeerConfig& config, nlohmann::json facts);
  ~StatusRole();

  // Where reports go; the facts are added to each. Empty: there is no server.
  std::function<void(nlohmann::json report)> outlet();

 private:
  explicit StatusRole(nlohmann::json facts) : facts_(std::move(facts)) {}

  const nlohmann::json facts_;
  std::unique_ptr<StatusServer> server_;  // null: off
  std::thread thread_;
};

}  // namespace starling::peer
