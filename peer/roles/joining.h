// Joining: a peer's start in a swarm that has trained without it. Before its trainer and mixer run,
// the network role finds out whether it is far behind and fetches the others' state (gossip/
// state_fetcher.h); this waits for the outcome and puts what was fetched into the image from which
// the roles start. In the other direction it lends newcomers this peer's checkpoints.
//
// Owns the desk, and the slots of the pieces that are served. The fetched files are removed when a
// checkpoint that contains them, or needs them not, is on disk: where fetching broke off the next
// start goes on with them. Thread: main, but for the desk.
#pragma once

#include <filesystem>
#include <optional>

#include "base/device.h"
#include "peer/config/config.h"
#include "peer/roles/network.h"
#include "peer/states/state_desk.h"

namespace starling::peer {

enum class Start : std::uint8_t { kAsItIs, kFetched, kStopped };

class Joining {
 public:
  static Result<std::unique_ptr<Joining>> open(const PeerConfig& config,
                                               const std::filesystem::path& folder,
                                               const StripeTable& stripes,
                                               const CheckpointDigests& digests, Device& device,
                                               Disk& disk);

  StateDesk& desk() noexcept { return *desk_; }
  // What the network role is to begin with; nothing if this peer does not fetch.
  std::optional<gossip::FetchState> fetch() const;

  // Blocks until the network role has decided. kFetched: `image` holds the state of others.
  Start wait(const Network& network, const Ending& ending, CheckpointImage& image);
  // A checkpoint behind the start is on disk, or failed to get there. Disk's thread.
  void note_written(bool written) const;

 private:
  Joining(bool moments, std::filesystem::path folder)
      : moments_(moments), folder_(std::move(folder)) {}

  const bool moments_;
  const std::filesystem::path folder_;
  bool fetches_ = false;
  bool contained_ = false;  // in the checkpoints to come; written before the first of them
  std::optional<SlotPool> pieces_;
  std::unique_ptr<StateDesk> desk_;
};

}  // namespace starling::peer
