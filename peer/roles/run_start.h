// What a run starts from, and so which run it is: peers that started from other weights would pull
// each other apart, so they must not meet. Start-up only. Errors name the file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gossip/core.h"
#include "gossip/ledger.h"
#include "gossip/net/identity.h"
#include "model/param_layout.h"
#include "peer/config/config.h"
#include "peer/files/checkpoint.h"
#include "peer/files/checkpoint_image.h"
#include "peer/files/checkpoint_store.h"
#include "peer/files/run_folder.h"

namespace starling::peer {

struct RunStart {
  std::vector<float> weights{};  // in the run's layout; empty: drawn from run.seed
  std::uint64_t digest = 0;      // of them; 0: none
};

// `path`: run.start, a checkpoint of the same model in any layout: all of [model] but its context
// must be the same; empty: none. `shards`: the data it is to go on with, which its own tokenizer
// must have made; those that cannot be read are not judged here.
Result<RunStart> open_start(std::string_view path, const model::ParamLayout& layout,
                            std::span<const std::string> shards);

CheckpointDigests run_digests(std::string_view run, const RunStart& start,
                              const model::ParamLayout& layout);

// That its weights were drawn from the seed of this run: those of another seed are of another run,
// in which nobody else would be.
Status check_seed(const CheckpointFile& file, const PeerConfig& config);

// What tells the run, model or layout of `file` from those of `config`, whose digests these are, by
// its own configuration: "model.heads is 2 there, 4 here"; empty: nothing that it knows of.
std::string differences(const CheckpointFile& file, const CheckpointDigests& digests,
                        const PeerConfig& config);

// Without others who could give it the weights again.
bool trains_alone(const PeerConfig& config);

// kInvalidConfig: a start would begin anew though the last one left checkpoints, elsewhere or on a
// disk that is not there.
Status check_kept(const PeerConfig& config);
// kCorrupt: a start would begin anew because all checkpoints there turned out to be damaged.
Status check_given_up(const PeerConfig& config);

// The checkpoints of this peer, locked for as long as its folder is open. What is there is set
// aside where checkpoint.resume is "never"; else what check_kept() says is an error for a peer that
// nobody can give the weights again, and a warning for others.
Result<CheckpointStore> open_checkpoints(const PeerConfig& config, RunFolder& folder);

// This peer's key, made if there is none. An error where another process of this machine takes part
// in the run with it.
Result<gossip::Identity> open_identity(const PeerConfig& config, RunFolder& folder);

// What a peer of this run goes on from, as load_newest(); errors name the keys that differ, and
// data of another tokenizer is one.
Result<std::optional<CheckpointFile>> newest_of_run(CheckpointStore& store,
                                                    const CheckpointDigests& digests,
                                                    const PeerConfig& config);

// Fills `image` from the newest that can be read, and says which; empty: there is none. Where there
// are some, but all are damaged, that is an error for a peer that nobody can give the weights
// again.
Result<std::filesystem::path> restore_newest(CheckpointStore& store,
                                             const CheckpointDigests& digests,
                                             const PeerConfig& config, CheckpointImage& image);

// An age by the date, where this machine knows it: a clock that nobody has set, as after a start
// without a battery, is taken for none. Another process of the machine can say what it means.
CheckpointAge to_date(const gossip::WeightsAge& age);
gossip::WeightsAge from_date(const CheckpointAge& age);

// What gossip goes on from; an image that nothing was restored to stands for a fresh peer.
gossip::RestoredState restored_state(const CheckpointImage& image,
                                     std::vector<gossip::LedgerRow> ledger);

}  // namespace starling::peer
