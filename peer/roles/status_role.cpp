#include "peer/roles/status_role.h"

#include <utility>

#include "base/log.h"
#include "base/this_thread.h"
#include "peer/config/addresses.h"
#include "peer/config/config_ranges.h"
#include "peer/roles/memory_plan.h"

namespace starling::peer {

nlohmann::json status_facts(const PeerConfig& config, const gossip::Identity& identity,
                            std::string_view device) {
  return {{"run", config.run.name},
          {"id", gossip::to_string(identity.id())},
          {"device", device},
          {"model", run_title(config)},
          {"batch_sequences", config.batch.sequences},
          {"micro_batch", micro_batch_of(config)},
          {"upload_limit", config.bandwidth.upload_mbit * kBytesPerMbit},
          {"download_limit", config.bandwidth.download_mbit * kBytesPerMbit},
          {"day_limit", config.bandwidth.gigabytes_per_day * 1e9}};
}

Result<std::unique_ptr<StatusRole>> StatusRole::start(const PeerConfig& config,
                                                      nlohmann::json facts) {
  std::unique_ptr<StatusRole> role(new StatusRole(std::move(facts)));
  if (config.status.listen.empty()) return role;
  auto address = parse_status_listen(config.status.listen);
  if (!address.ok()) return std::move(address).error();
  auto server = StatusServer::open(
      {.host = std::string(gossip::host(address.value())), .port = address.value().control_port});
  if (!server.ok() && server.error().code() == ErrorCode::kInvalidConfig) {
    return std::move(server).error().with_context("status.listen");
  }
  if (!server.ok()) {
    log_warning("no status page at {} (status.listen): {}; training goes on without",
                config.status.listen, server.error().message());
    return role;
  }
  role->server_ = std::move(server).value();
  log_info("status page: {}", role->server_->url());
  if (!role->server_->this_machine_only()) {
    log_warning("whoever can connect to {} can read there how this run goes (status.listen)",
                config.status.listen);
  }
  role->thread_ = std::thread([running = role->server_.get()] {
    name_this_thread("status");
    running->run();
  });
  return role;
}

StatusRole::~StatusRole() {
  if (!server_) return;
  server_->stop();
  thread_.join();
}

std::function<void(nlohmann::json report)> StatusRole::outlet() {
  if (!server_) return {};
  return [this](nlohmann::json report) {
    report.update(facts_);
    server_->publish(std::move(report));
  };
}

}  // namespace starling::peer
