// What a peer's checkpoint holds: a CheckpointImage as sections, and back.
//
//   weights, first_moment, second_moment   f32, one per parameter (the trainer's)
//   slow, momentum                         f32, one per parameter; absent without outer steps
//   scales                                 f32, block scales of every stripe in order
//   progress                               where training stands (TrainerProgress)
//   data                                   where reading stands (DataPosition)
//   ledger                                 which stripes are applied in these weights
//   unsettled                              deltas applied here and not yet acknowledged
//   tokens                                 the token map of the swarm
//   age                                    when that was, and how late it was (CheckpointAge);
//                                          absent in old files: not known
//   config                                 the effective configuration, TOML
//   tokenizer                              the name of the one it was trained with; absent: unknown
//
// The bytes are taken as foreign (checkpoint_codec.h). Errors: kCorrupt, or kIncompatible where
// sizes belong to another model; both name the section. Start-up and disk thread; plain values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "optim/outer_config.h"
#include "peer/files/checkpoint.h"
#include "peer/files/checkpoint_image.h"

namespace starling::peer {

// The large sections point into `image`, which must stay as it is until the file is written.
SectionList sections_of(const CheckpointImage& image, std::string_view config,
                        std::string_view tokenizer = {});

// Whether a run of that method can go on from the file; if not, kIncompatible.
Status check_sections(const CheckpointFile& file, optim::OuterMethod method);
// Fills `image`, whose vectors have the sizes of this run's model, from a verified file.
Status restore(const CheckpointFile& file, CheckpointImage& image);

Result<DataPosition> read_data(const CheckpointFile& file);
Result<TrainerProgress> read_progress(const CheckpointFile& file);
Result<std::string> read_config(const CheckpointFile& file);
// Empty: it names none. What it names is fit to be part of a file's name.
Result<std::string> read_tokenizer_name(const CheckpointFile& file);
// The section that read_tokenizer_name() reads; `name` must outlive it.
Section tokenizer_section(std::string_view name);

}  // namespace starling::peer
