// The description of every configuration key: key, field, range and why it exists, written once
// and visited by the parser, the dump and the help text. A visitor has
//
//   begin_section(name, why), end_section()
//   operator()(key, field, range, why)     numbers: IntegerRange or RealRange; texts: TextRange;
//                                          std::optional<std::int64_t>: AutoRange
//   operator()(key, field, choices, why)   enumerations: an array of Choice
//   operator()(key, field, why)            bool
//
// for fields of type bool, integers, float, double, std::string, std::vector<std::string> and
// enumerations. Templates only; included by config*.cpp and by nobody else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "peer/config/config.h"
#include "peer/config/config_choices.h"
#include "peer/config/config_ranges.h"
#include "peer/config/simulate_describe.h"

namespace starling::peer {

template <class Visitor>
void describe(Visitor& visit, RunConfig& c) {
  const IntegerRange any{0, INT64_MAX};
  visit.begin_section("run", "Which training run this is, and who takes part.");
  visit("name", c.name, TextRange{1, 64},
        "Peers exchange only with peers of a run of the same name. Letters, digits, . _ -");
  visit("folder", c.folder, TextRange{1, 4096},
        "Everything a peer writes goes to <folder>/<name>/<peer_name>.");
  visit("peer_name", c.peer_name, TextRange{1, 64},
        "This peer's folder and its name in logs. Letters, digits, . _ -");
  visit("seed", c.seed, any, "Draws the initial weights: the same for all peers of a run.");
  visit("start", c.start, TextRange{0, 4096},
        "Checkpoint whose weights training starts from, of `starling import` for example: the same "
        "for all peers of a run. Empty: drawn from run.seed.");
  visit("tokens", c.tokens, IntegerRange{1, kTokensMax},
        "What this peer trains on, in tokens; then it is done.");
  visit("total_tokens", c.total_tokens, IntegerRange{0, kTokensMax},
        "What all peers together are expected to train on. 0: this peer's tokens, as if alone.");
  visit("log_level", c.log_level, kLogLevels, "What is worth a line on standard error.");
  visit.end_section();
}

template <class Visitor>
void describe(Visitor& visit, model::LlamaConfig& c) {
  visit.begin_section("model", "The architecture, a Llama decoder; the same for all peers.");
  visit("vocabulary", c.vocabulary, IntegerRange{2, 1 << 24},
        "Token ids are below this. Bytes are 256; 'starling prepare' tells what another tokenizer "
        "has.");
  visit("width", c.width, IntegerRange{2, 1 << 16}, "Values per token in the residual stream.");
  visit("layers", c.layers, IntegerRange{1, 1024}, "Decoder layers.");
  visit("heads", c.heads, IntegerRange{1, 1024}, "Query heads; they divide the width evenly.");
  visit("kv_heads", c.kv_heads, IntegerRange{1, 1024},
        "Key and value heads; each serves heads / kv_heads query heads.");
  visit("ffn", c.ffn, IntegerRange{1, 1 << 18}, "Inner width of the feed-forward block.");
  visit("context", c.context, IntegerRange{2, 1 << 20}, "Longest sequence, in tokens.");
  visit("rope_theta", c.rope_theta, RealRange{1, 1e12}, "Base of the rotary position encoding.");
  visit("rope_factor", c.rope_factor, RealRange{1, 1e6},
        "Llama 3.1: positions that turn slowly turn this many times slower. 1: all as they are.");
  visit("rope_low_frequency", c.rope_low_frequency, RealRange{1e-3, 1e6},
        "With a factor: turns in the original context below which a position is slow.");
  visit("rope_high_frequency", c.rope_high_frequency, RealRange{1e-3, 1e6},
        "With a factor: turns above which it is left alone.");
  visit("rope_original_context", c.rope_original_context, IntegerRange{1, 1 << 24},
        "With a factor: the context that the model was first trained with.");
  visit("norm_epsilon", c.norm_epsilon, RealRange{1e-12, 1e-2},
        "Keeps the normalization from dividing by zero.");
  visit("tied_head", c.tied_head, "The output matrix is the embedding: fewer parameters.");
  visit.end_section();
}

template <class Visitor>
void describe(Visitor& visit, model::BatchShape& c, std::optional<std::int64_t>& micro,
              RecomputeChoice& recompute) {
  visit.begin_section("batch", "One training step of this peer; each peer chooses its own.");
  visit("sequences", c.sequences, IntegerRange{1, 65535},  // in a grid of a GPU
        "Sequences in a batch. Best so that all peers' steps have as many tokens.");
  visit("tokens", c.tokens, IntegerRange{1, 1 << 20},
        "Tokens in a sequence; at most model.context.");
  visit("micro", micro, AutoRange{1, 65535},
        "Sequences computed at a time; their gradients are summed over the batch, which it divides "
        "evenly. auto: as many as fit into the memory that is free at the start, on processors "
        "fewer where that is as fast.");
  visit("recompute", recompute, kRecomputes,
        "What of a layer is computed again in the backward, rather than kept. blocks: all but its "
        "input, a third more work for the least memory. norms: what norms gave. gates: only what "
        "was gated. auto: gates on a GPU, norms on processors.");
  visit.end_section();
}

template <class Visitor>
void describe(Visitor& visit, optim::InnerConfig& c, optim::LrConfig& schedule) {
  visit.begin_section("optimizer", "The inner optimizer: AdamW on this peer's own batches.");
  visit("learning_rate", schedule.peak, RealRange{0, 10},
        "The largest learning rate; [schedule] says when it is reached.");
  visit("beta1", c.beta1, RealRange{0, 0.9999}, "Memory of the gradient.");
  visit("beta2", c.beta2, RealRange{0, 0.99999}, "Memory of the squared gradient.");
  visit("epsilon", c.epsilon, RealRange{1e-16, 1e-2}, "Keeps small steps finite.");
  visit("weight_decay", c.weight_decay, RealRange{0, 10}, "Decoupled decay, for matrices only.");
  visit("clip_norm", c.clip_norm, RealRange{0, 1e6},
        "Gradients are scaled down to this norm. 0: never.");
  visit.end_section();
}

template <class Visitor>
void describe(Visitor& visit, optim::LrConfig& c) {
  const RealRange tokens{0, static_cast<double>(kTokensMax)};
  visit.begin_section("schedule", "The learning rate over the tokens of the whole swarm.");
  visit("shape", c.shape, kShapes, "How it goes on after the warm-up.");
  visit("warmup_tokens", c.warmup_tokens, tokens, "It rises from zero until here. 0: no warm-up.");
  visit("decay_start_tokens", c.decay_start_tokens, tokens,
        "Where warmup-stable-decay begins to fall. 0: at 80 % of the end, or after the warm-up.");
  visit("total_tokens", c.total_tokens, tokens,
        "Where it has reached its floor. 0: run.total_tokens.");
  visit("floor_ratio", c.floor_ratio, RealRange{0, 1},
        "The floor over the largest rate; above 0, as a peer may run past the end.");
  visit("local_warmup_steps", c.local_warmup_steps, IntegerRange{0, 1'000'000},
        "A peer that joins rises over this many of its own steps: its moments start at zero.");
  visit.end_section();
}

template <class Visitor>
void describe(Visitor& visit, OuterSettings& c) {
  visit.begin_section("outer", "How peers come together: outer steps and pair exchanges.");
  visit("method", c.rule.method, kMethods,
        "pair-gossip: average fragments with random peers. local: alone. Others: only simulated.");
  visit("fragments", c.rounds.fragments, IntegerRange{1, 1025},
        "Parts of the model that travel one at a time. No layer is cut: at most model.layers + 1.");
  visit("steps_per_round", c.rounds.steps_per_round, IntegerRange{1, kStepsPerRoundMax},
        "Each fragment has its outer step and exchange once in this many training steps.");
  visit("local_steps", c.local_steps, kLocalSteps,
        "pair-gossip, async-local-sgd. dynamic: as long as the fastest peer's, at least 4 steps.");
  visit("momentum", c.rule.momentum, RealRange{0, 0.999},
        "Memory of the outer step. pair-gossip: that of a peer alone; it grows with `gain`.");
  visit("learning_rate", c.rule.learning_rate, RealRange{1e-6, 10}, "Share of the inner progress.");
  visit("gain", c.rule.gain, RealRange{0, optim::kGainMax},
        "pair-gossip: what learning_rate / (1 - momentum) becomes among many equal peers.");
  visit("gain_warmup_steps", c.rule.gain_warmup_steps, IntegerRange{0, 100'000'000},
        "pair-gossip: training steps of this peer until the gain is reached. 0: at once.");
  visit("mixing", c.rule.mixing, RealRange{0.001, 0.5},
        "pair-gossip: how far a pair moves together; 0.5 meets in the middle.");
  visit("rate_power", c.rule.rate_power, RealRange{0, 8},
        "pair-gossip: a faster peer counts for more, by its tokens/s to this power. 0: all alike.");
  visit("lag_discount", c.lag_discount, RealRange{0, 100},
        "pair-gossip: what is L rounds late counts 1 / (1 + lag_discount L^2). 0: as if in time.");
  visit("group_pull", c.rule.group_pull, RealRange{0, 10}, "noloco: pull to the group's mean.");
  visit("group", c.rule.group, IntegerRange{2, 65536}, "noloco: peers that meet in a round.");
  visit("overlap_steps", c.rule.overlap_steps, IntegerRange{0, 1'000'000},
        "streaming-diloco, push-sum: training steps while the others' part is on its way.");
  visit("blend", c.rule.blend, RealRange{0, 1},
        "streaming-diloco: how much of the local weights is kept where they meet the common ones.");
  visit("buffer", c.rule.buffer, IntegerRange{0, 65536},
        "async-local-sgd: arrivals that the server's momentum takes at once. 0: as many as peers.");
  visit("momentum_share", c.rule.momentum_share, RealRange{0, 1},
        "async-local-sgd: the momentum in every other arrival; at most 1 / buffer.");
  visit("targets", c.rule.targets, IntegerRange{0, 65536},
        "epidemic: peers that weights are sent to. 0: the logarithm of their number to base 2.");
  visit("wire_format", c.wire_format, kWireFormats,
        "How weights travel: 32, 16, 8, 6, 5 or 4 bits per parameter. Fewer than 16 begin with 16, "
        "and again where most weights differ by more than they can tell.");
  visit("clip_factor", c.clip_factor, RealRange{0, 1000},
        "A difference this many times larger than usual is scaled down; at least 1. 0: never.");
  visit.end_section();
}

template <class Visitor>
void describe(Visitor& visit, GossipSettings& c) {
  const IntegerRange ms{1, 3'600'000};
  visit.begin_section("gossip", "The network: addresses, patience and limits.");
  visit("listen", c.listen, TextRange{0, 80},
        "host:port of small messages. 0.0.0.0: everywhere; port 0: a free one. Empty: only dial.");
  visit("bulk_port", c.bulk_port, IntegerRange{0, 65535},
        "Port of the weights. 0: the port after that of listen.");
  visit("advertise", c.advertise, TextRange{0, 80},
        "host:port at which other peers reach this one. Empty: listen.");
  visit("seeds", c.seeds, TextRange{3, 160},
        "KEY@host:port of peers to join through, as they log it. Empty: wait to be found.");
  visit("ping_interval_ms", c.ping_interval_ms, ms,
        "One peer is probed this often, each in its turn.");
  visit("suspect_after_ms", c.suspect_after_ms, ms,
        "A probe unanswered this long, also through others, makes a peer suspect.");
  visit("dead_after_ms", c.dead_after_ms, ms,
        "A suspect that others doubt too is given up after this; later in large swarms.");
  visit("redial_interval_ms", c.redial_interval_ms, ms,
        "Seeds and lost peers are greeted this often, for ever.");
  visit("offer_timeout_ms", c.offer_timeout_ms, ms,
        "The longest wait for the answer to an offer; a known peer has less, by its pace.");
  visit("stripe_timeout_ms", c.stripe_timeout_ms, ms,
        "The longest silence before a part is sent again; a known peer has less, by its pace.");
  visit("query_after_ms", c.query_after_ms, ms,
        "The shortest wait for the other side's decision before asking for it.");
  visit("closing_seconds", c.closing_seconds, RealRange{0, 3600},
        "After its last step a peer keeps exchanging this long, so that all come together.");
  visit("exchanges_initiated_max", c.exchanges_initiated_max, IntegerRange{1, 16},
        "Exchanges under way that this peer began.");
  visit("exchanges_accepted_max", c.exchanges_accepted_max, IntegerRange{1, 16},
        "Exchanges under way that other peers began.");
  visit("partners_tried_max", c.partners_tried_max, IntegerRange{1, 64},
        "Peers asked before a fragment skips its exchange.");
  visit("locality", c.locality, RealRange{0, gossip::kLocalityMax},
        "Share of the exchanges for which one that answers sooner is preferred. 0: anybody.");
  visit("peers_max", c.peers_max, IntegerRange{128, 65536},
        "Peers remembered. Of a larger swarm a changing sample is known.");
  visit("window", c.window, IntegerRange{1, 32},
        "Parts of one exchange without an answer: more fills a long link, and needs slots.");
  visit("slots", c.slots, IntegerRange{0, 256},
        "Buffers of each kind, of a part of 256 Ki weights each. When none is free a part leaves "
        "later, or an exchange is skipped; nobody waits. 0: as many as a round needs, 32 or more.");
  visit("silence_min_ms", c.silence_min_ms, ms,
        "No answer is missed before this, however fast the peer has been so far.");
  visit("connections_max", c.connections_max, IntegerRange{4, 512},
        "Peers that connections are kept to. Beyond that the idlest are closed.");
  visit.end_section();
}

template <class Visitor>
void describe(Visitor& visit, BandwidthConfig& c) {
  const RealRange mbit{0, 1e6};
  visit.begin_section("bandwidth", "What this peer may take of its line. Training never waits.");
  visit("upload_mbit", c.upload_mbit, mbit,
        "Megabits per second sent at most, on average over any minute. 0: no limit.");
  visit("download_mbit", c.download_mbit, mbit,
        "Megabits per second received at most, on average over any minute; the buffers of each "
        "connection, up to 8.5 MiB, fill once beyond it. 0: no limit.");
  visit("gigabytes_per_day", c.gigabytes_per_day, RealRange{0, 1e6},
        "Both directions in any 24 hours, spread over the day; then no exchanges or fetching until "
        "it is less. 0: no limit.");
  visit(
      "quiet_hours", c.quiet_hours, TextRange{0, 128},
      "Hours without exchanges, local time, as \"22:00-07:30\"; a newcomer waits them out. Empty: "
      "none.");
  visit("fewer_bits", c.fewer_bits,
        "Where these limits hold exchanges back, weights go in 4 bits instead of 8, 6 or 5 while "
        "they do.");
  visit.end_section();
}

template <class Visitor>
void describe(Visitor& visit, RelaySettings& c) {
  visit.begin_section("relay", "How peers exchange that cannot be called: through one that can.");
  visit("volunteer", c.volunteer,
        "Forward between such peers. What they say is sealed: it can neither be read nor changed.");
  visit("use", c.use, "While this peer cannot be called, have others forward for it.");
  visit("mbit", c.mbit, RealRange{0, 1e6},
        "Megabits per second forwarded at most, on average over any minute, and never more than "
        "half of bandwidth.upload_mbit. 0: no limit but that.");
  visit("holders", c.holders, IntegerRange{1, 256}, "Peers forwarded for.");
  visit.end_section();
}

template <class Visitor>
void describe(Visitor& visit, JoinConfig& c) {
  visit.begin_section("join", "How a peer that is far behind gets the others' weights, and gives.");
  visit("state", c.state, kJoinStates,
        "What a newcomer fetches first; moments: AdamW's second. none: exchanges alone pull it.");
  visit("donors", c.donors, IntegerRange{1, 8}, "Peers fetched from at once.");
  visit("serve_max", c.serve_max, IntegerRange{0, 16},
        "Newcomers served at once, from the newest checkpoint. 0: none.");
  visit("wait_seconds", c.wait_seconds, RealRange{0, 3600},
        "At the start, for word of a first partner that has trained, and three times as long for a "
        "partner at all; without it training begins.");
  visit(
      "patience_seconds", c.patience_seconds, RealRange{1, 86400},
      "Without a new piece for so long, training begins without the others' weights; while donors "
      "say that they are busy, half an hour at most.");
  visit("newcomer_tokens", c.newcomer_tokens, IntegerRange{0, kTokensMax},
        "Far behind is who has trained less than half of the others, where they have more than "
        "this.");
  visit("missed_seconds", c.missed_seconds, RealRange{0, 31'536'000},
        "So is who is started again after the others have trained on for longer.");
  visit.end_section();
}

template <class Visitor>
void describe(Visitor& visit, TrustSettings& c) {
  visit.begin_section("trust", "Who this peer is, and who may take part. Links are encrypted.");
  visit("key", c.key, TextRange{0, 4096},
        "File of this peer's secret key. Empty: 'key' in the peer's folder, made at first start.");
  visit("allow", c.allow, TextRange{0, 4096},
        "File with the keys of those who may take part, one a line and, if you like, a name "
        "behind each; may change at any time.");
  visit("secret", c.secret, TextRange{0, 4096},
        "File with a secret that all who take part know. With allow, both must hold.");
  visit.end_section();
}

template <class Visitor>
void describe(Visitor& visit, DataConfig& c) {
  visit.begin_section("data", "Token shards made by 'starling prepare', or by llm.c.");
  visit("train", c.train, TextRange{1, 4096},
        "Shards, folders of shards, or patterns like data/train_*.bin, to train on.");
  visit("validation", c.validation, TextRange{1, 4096}, "The same, held out; may be empty.");
  visit("seed", c.seed, IntegerRange{0, INT64_MAX},
        "Draws the order in which the text is read, together with the peer's name.");
  visit.end_section();
}

template <class Visitor>
void describe(Visitor& visit, CheckpointConfig& c) {
  visit.begin_section("checkpoint", "What survives a crash.");
  visit("folder", c.folder, TextRange{0, 4096}, "Empty: 'checkpoints' in the peer's folder.");
  visit("every_steps", c.every_steps, IntegerRange{0, 1'000'000'000},
        "Steps between checkpoints; one is always written at the end. 0: only that one.");
  visit("keep", c.keep, IntegerRange{1, 1000}, "Newest checkpoints that are kept.");
  visit("resume", c.resume, kResumes,
        "auto: go on from the newest if there is one. never: start anew. required: fail without.");
  visit.end_section();
}

template <class Visitor>
void describe(Visitor& visit, MetricsConfig& c) {
  visit.begin_section("metrics", "What is measured, in metrics.jsonl of the peer's folder.");
  visit("every_steps", c.every_steps, IntegerRange{1, 1'000'000}, "Steps between lines.");
  visit("validate_every_steps", c.validate_every_steps, IntegerRange{0, 1'000'000'000},
        "Steps between measurements on held-out text. 0: at the end alone.");
  visit("validation_batches", c.validation_batches, IntegerRange{1, 1'000'000},
        "Batches of one such measurement; always the same ones.");
  visit("tensorboard", c.tensorboard,
        "The same figures as event files for TensorBoard, in the folder tensorboard beside it.");
  visit.end_section();
}

template <class Visitor>
void describe(Visitor& visit, StatusSettings& c) {
  visit.begin_section("status", "A page and figures of this peer, for browsers and Prometheus.");
  visit("listen", c.listen, TextRange{0, 128},
        "IP address and port, read-only for all who can connect. Port 0: any. Empty: off. In use: "
        "the peer trains without.");
  visit.end_section();
}

template <class Visitor>
void describe(Visitor& visit, DeviceConfig& c) {
  visit.begin_section("device", "What computes.");
  visit("name", c.name, TextRange{1, 64},
        "auto: the first GPU with room for it, else the CPU. cpu. cuda:0 and so on. Of auto and "
        "cuda, starling swarm makes another GPU for each peer.");
  visit("threads", c.threads, IntegerRange{0, 1024},
        "Threads of the CPU's operators. 0: all processors of this process; of over two, but one; "
        "with pin, of those only that no other peer has.");
  visit("pin", c.pin,
        "A processor for each of these threads that no other peer of this user has; the peer's "
        "others take the rest. Where none is free, or too few for the threads that are said, the "
        "system places them.");
  visit("compute", c.compute, kComputeTypes,
        "What large matrix products multiply: floats, or floats rounded to bf16. Weights and sums "
        "are fp32 in both. auto: bf16 on a GPU, and where this processor is faster at it.");
  visit.end_section();
}

template <class Visitor>
void describe(Visitor& visit, TestConfig& c) {
  visit.begin_section("test", "For experiments; leave it alone otherwise.");
  visit("slow_down_factor", c.slow_down_factor, RealRange{1, 1000},
        "Sleeps so that a step takes this many times longer: a slower machine.");
  visit.end_section();
}

template <class Visitor>
void describe(Visitor& visit, PeerConfig& c) {
  describe(visit, c.run);
  describe(visit, c.model);
  describe(visit, c.batch, c.micro_batch, c.recompute);
  describe(visit, c.inner, c.schedule);
  describe(visit, c.schedule);
  describe(visit, c.outer);
  describe(visit, c.gossip);
  describe(visit, c.bandwidth);
  describe(visit, c.relay);
  describe(visit, c.join);
  describe(visit, c.trust);
  describe(visit, c.data);
  describe(visit, c.checkpoint);
  describe(visit, c.metrics);
  describe(visit, c.status);
  describe(visit, c.device);
  describe(visit, c.simulate);
  describe(visit, c.test);
}

}  // namespace starling::peer
