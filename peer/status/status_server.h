// StatusServer: answers HTTP (status_routes.h) with what the peer has last published.
//
// A thread and a loop of its own: a browser that is slow, or that lies, holds up neither protocol
// nor training. Reports come in by publish(), moved; nothing goes the other way.
//
// Whatever a client does is bounded: connections, the head of a request, the time for sending one
// and for taking an answer. Where connections are too many, the one that has asked nothing for the
// longest makes room for a new one, or the new one is turned away. What is no request is answered
// with 400 and hung up on; who does not read is dropped: a page that takes events slowly gets
// fewer, each the newest. Nobody is asked who they are: whoever can connect may read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "base/time.h"

namespace starling::peer {

struct StatusServerConfig {
  std::string host = "127.0.0.1";  // an IP literal, or localhost
  std::uint16_t port = 0;          // 0: any free one
  std::size_t connections_max = 32;
  std::size_t followers_max = 16;  // of them, pages that follow the events
  std::size_t request_bytes_max = 8192;
  Duration request_within = std::chrono::seconds(10);  // from the end of the one before
  Duration taken_within = std::chrono::seconds(20);    // an answer, by who asked
};

class StatusServer {
 public:
  // Listens at once. kInvalidConfig: that is no address; kUnavailable: it is in use.
  static Result<std::unique_ptr<StatusServer>> open(const StatusServerConfig& config);
  ~StatusServer();

  std::string url() const;
  std::uint16_t port() const;
  bool this_machine_only() const;

  void run();                           // its thread; until stop()
  void stop();                          // any thread
  void publish(nlohmann::json report);  // any thread

 private:
  struct Impl;
  explicit StatusServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace starling::peer
