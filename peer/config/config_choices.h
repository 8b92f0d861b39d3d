// The values of the configuration's enumerations, and what they are called there.
#pragma once

#include <array>

#include "peer/config/config.h"
#include "peer/config/config_ranges.h"

namespace starling::peer {

inline constexpr std::array kLogLevels{
    Choice<LogLevel>{"debug", LogLevel::kDebug}, Choice<LogLevel>{"info", LogLevel::kInfo},
    Choice<LogLevel>{"warning", LogLevel::kWarning}, Choice<LogLevel>{"error", LogLevel::kError}};
inline constexpr std::array kShapes{
    Choice<optim::LrShape>{"constant", optim::LrShape::kConstant},
    Choice<optim::LrShape>{"cosine", optim::LrShape::kCosine},
    Choice<optim::LrShape>{"warmup-stable-decay", optim::LrShape::kWarmupStableDecay}};
inline constexpr std::array kMethods{
    Choice<optim::OuterMethod>{"pair-gossip", optim::OuterMethod::kPairGossip},
    Choice<optim::OuterMethod>{"local", optim::OuterMethod::kLocal},
    Choice<optim::OuterMethod>{"all-reduce", optim::OuterMethod::kAllReduce},
    Choice<optim::OuterMethod>{"diloco", optim::OuterMethod::kDiloco},
    Choice<optim::OuterMethod>{"streaming-diloco", optim::OuterMethod::kStreamingDiloco},
    Choice<optim::OuterMethod>{"noloco", optim::OuterMethod::kNoloco},
    Choice<optim::OuterMethod>{"async-local-sgd", optim::OuterMethod::kAsyncLocalSgd},
    Choice<optim::OuterMethod>{"ad-psgd", optim::OuterMethod::kAdPsgd},
    Choice<optim::OuterMethod>{"swarm-sgd", optim::OuterMethod::kSwarmSgd},
    Choice<optim::OuterMethod>{"push-sum", optim::OuterMethod::kPushSum},
    Choice<optim::OuterMethod>{"epidemic", optim::OuterMethod::kEpidemic}};
inline constexpr std::array kLocalSteps{Choice<LocalSteps>{"fixed", LocalSteps::kFixed},
                                        Choice<LocalSteps>{"dynamic", LocalSteps::kDynamic}};
inline constexpr auto kWireFormats = choices_of(optim::kWireFormats);
inline constexpr std::array kJoinStates{
    Choice<JoinState>{"none", JoinState::kNone}, Choice<JoinState>{"weights", JoinState::kWeights},
    Choice<JoinState>{"weights-and-moments", JoinState::kWeightsAndMoments}};
inline constexpr std::array kResumes{Choice<Resume>{"auto", Resume::kAuto},
                                     Choice<Resume>{"never", Resume::kNever},
                                     Choice<Resume>{"required", Resume::kRequired}};
inline constexpr std::array kComputeTypes{Choice<ComputeType>{"auto", ComputeType::kAuto},
                                          Choice<ComputeType>{"fp32", ComputeType::kFp32},
                                          Choice<ComputeType>{"bf16", ComputeType::kBf16}};
inline constexpr std::array kRecomputes{
    Choice<RecomputeChoice>{"auto", RecomputeChoice::kAuto},
    Choice<RecomputeChoice>{"gates", RecomputeChoice::kGates},
    Choice<RecomputeChoice>{"norms", RecomputeChoice::kNorms},
    Choice<RecomputeChoice>{"blocks", RecomputeChoice::kBlocks}};

}  // namespace starling::peer
