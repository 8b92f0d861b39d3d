#include "peer/swarm/port_pairs.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <utility>

#include "base/rng.h"
#include "peer/io/file_io.h"

namespace starling::peer {

namespace {

constexpr std::uint16_t kFirstPort = 20000;
constexpr std::uint16_t kPortPairs = 6000;  // up to 31999; outgoing connections start at 32768

// Holds the port until it is closed, so that no other pair gets it.
std::optional<FileHandle> hold_port(std::uint16_t port) {
  FileHandle handle(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (!handle.valid() ||
      ::bind(handle.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return std::nullopt;
  }
  return handle;
}

}  // namespace

Result<std::vector<std::uint16_t>> find_port_pairs(std::size_t count, std::uint64_t salt) {
  if (count > kPortPairs) {  // or all there are would be held in vain
    return Error(ErrorCode::kUnavailable,
                 fmt::format("{} pairs of ports are more than the {} from port {} on", count,
                             kPortPairs, kFirstPort));
  }
  std::vector<std::uint16_t> ports;
  std::vector<FileHandle> held;
  const std::uint64_t start = mix64(salt);
  for (std::uint64_t tried = 0; tried < kPortPairs && ports.size() < count; ++tried) {
    const auto port = static_cast<std::uint16_t>(kFirstPort + 2 * ((start + tried) % kPortPairs));
    auto control = hold_port(port);
    auto bulk = hold_port(static_cast<std::uint16_t>(port + 1));
    if (!control || !bulk) continue;
    held.push_back(std::move(*control));
    held.push_back(std::move(*bulk));
    ports.push_back(port);
  }
  if (ports.size() == count) return ports;
  return Error(
      ErrorCode::kUnavailable,
      fmt::format("only {} of {} pairs of ports are free on 127.0.0.1", ports.size(), count));
}

}  // namespace starling::peer
