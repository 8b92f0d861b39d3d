// synchronous_peer: one process of a swarm whose peers wait for each other (outer.method =
// "all-reduce" or "diloco"), for comparisons with real processes. No part of the product.
//
//   synchronous_peer CONFIG --rank 0 --peers 10.0.0.1:7000,10.0.0.2:7000 --seconds 60 --out FOLDER
//
// Trains with the product's trainer on the text of a peer of its rank (virtual_peer.h), and hands
// over what the method says in the simplest way: parcels go up a binomial tree of ZeroMQ sockets
// to rank 0, which averages, and down again, in 32 bits; whoever waits, blocks. All must be there,
// and none may fail. Time begins when the last one has come, and ends everything. Lines of JSON on
// standard output: "ready", "begin", "loss" (of this peer alone, with --evaluate-seconds), "end".
// FOLDER gets last.ckpt, for `starling average` and `eval`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "base/cpu_device.h"
#include "optim/outer_exchange.h"
#include "optim/schedule.h"
#include "peer/files/checkpoint_parts.h"
#include "peer/files/checkpoint_write.h"
#include "peer/io/clock.h"
#include "peer/simulate/simulate_plan.h"
#include "peer/simulate/virtual_peer.h"

namespace starling::peer {
namespace {

using When = optim::ExchangePlan::When;

struct Options {
  std::filesystem::path config, out;
  std::vector<std::string> overrides;
  std::vector<std::string> peers;  // addresses, by rank
  std::uint32_t rank = 0;
  double seconds = 60;
  double evaluate_seconds = 0;                                      // 0: never
  std::uint64_t steps = std::numeric_limits<std::uint64_t>::max();  // or until then
};

void say(const nlohmann::json& line) {
  fmt::print("{}\n", line.dump());
  std::fflush(stdout);
}

// --- the tree ---

// Before the values of a parcel on its way.
struct Head {
  std::uint64_t step = 0;
  double weight = 1;
  std::uint32_t rank = 0;
  std::uint32_t unused = 0;
};

struct Message {
  zmq::message_t caller;  // of a child: what leads back to it
  optim::Parcel parcel;
};

// The parent of a rank is the rank without its lowest bit.
class Tree {
 public:
  Tree(zmq::context_t& context, const std::vector<std::string>& peers, std::uint32_t rank)
      : rank_(rank), below_(context, ZMQ_ROUTER), above_(context, ZMQ_DEALER) {
    for (std::uint32_t bit = 1; bit < peers.size() && (rank & bit) == 0; bit *= 2) {
      if (rank + bit < peers.size()) ++children_;
    }
    for (zmq::socket_t* socket : {&below_, &above_}) socket->set(zmq::sockopt::linger, 0);
    below_.bind("tcp://" + peers[rank]);
    if (rank > 0) above_.connect("tcp://" + peers[rank & (rank - 1)]);
  }

  // The parcels of all as one. False: not before `end`.
  bool meet(const optim::OuterExchange& exchange, std::uint64_t step, const optim::Parcel& own,
            Instant end, optim::Parcel& all) {
    const std::size_t size = own.values.size();
    std::map<std::uint32_t, Message> come;  // the order of sums is that of ranks
    while (come.size() < children_) {
      Message child;
      const auto rank = receive(below_, step, size, end, child);
      if (!rank) return false;
      come[*rank] = std::move(child);
    }
    std::vector<const optim::Parcel*> parcels{&own};
    for (const auto& [rank, child] : come) parcels.push_back(&child.parcel);
    exchange.combine(parcels, all);
    if (rank_ > 0) {
      send(above_, step, all);
      Message answer;
      if (!receive(above_, step, size, end, answer)) return false;
      all = std::move(answer.parcel);
    }
    for (auto child = come.rbegin(); child != come.rend(); ++child) {  // first who sends on most
      below_.send(child->second.caller, zmq::send_flags::sndmore);
      send(below_, step, all);
    }
    return true;
  }

  std::uint64_t bytes() const { return bytes_; }  // sent

 private:
  void send(zmq::socket_t& socket, std::uint64_t step, const optim::Parcel& parcel) {
    const Head head{.step = step, .weight = parcel.weight, .rank = rank_};
    const std::size_t bytes = parcel.values.size() * sizeof(float);
    socket.send(zmq::const_buffer(&head, sizeof head), zmq::send_flags::sndmore);
    socket.send(zmq::const_buffer(parcel.values.data(), bytes), zmq::send_flags::none);
    bytes_ += sizeof head + bytes;
  }

  // Whose it is; nothing by `end`. All are of one step: nobody goes on before all have met.
  std::optional<std::uint32_t> receive(zmq::socket_t& socket, std::uint64_t step, std::size_t size,
                                       Instant end, Message& message) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - now()).count();
    zmq::pollitem_t item{socket.handle(), 0, ZMQ_POLLIN, 0};
    if (left <= 0 || zmq::poll(&item, 1, std::chrono::milliseconds(left)) == 0) return {};
    if (&socket == &below_) STARLING_ASSERT(socket.recv(message.caller).has_value());
    zmq::message_t head_bytes, values;
    STARLING_ASSERT(socket.recv(head_bytes).has_value());
    STARLING_ASSERT(socket.recv(values).has_value());
    Head head;
    STARLING_ASSERT(head_bytes.size() == sizeof head);
    STARLING_ASSERT(values.size() == size * sizeof(float));
    std::memcpy(&head, head_bytes.data(), sizeof head);
    STARLING_ASSERT(head.step == step);
    message.parcel.weight = head.weight;
    message.parcel.values.resize(size);
    if (size > 0) std::memcpy(message.parcel.values.data(), values.data(), values.size());
    return head.rank;
  }

  const std::uint32_t rank_;
  std::size_t children_ = 0;
  zmq::socket_t below_, above_;
  std::uint64_t bytes_ = 0;
};

// --- the peer ---

class SynchronousPeer {
 public:
  static Result<std::unique_ptr<SynchronousPeer>> create(const Options& options,
                                                         const VirtualWorld& world,
                                                         const optim::OuterExchange& exchange) {
    std::unique_ptr<SynchronousPeer> peer(new SynchronousPeer(options, world, exchange));
    auto inner = VirtualPeer::create(world, options.rank, {.step = Duration(1)}, 0);
    if (!inner.ok()) return std::move(inner).error();
    peer->peer_ = std::move(inner).value();
    auto llama = model::Llama::create(world.config.model, world.layout, world.config.batch,
                                      peer->device_, *peer->layers_);
    if (!llama.ok()) return std::move(llama).error().with_context("model");
    peer->llama_.emplace(std::move(llama).value());
    auto held_out = Dataset::open(
        world.config.data.validation,
        {.vocabulary = world.config.model.vocabulary, .tokens = world.config.batch.tokens});
    if (!held_out.ok()) return std::move(held_out).error().with_context("data.validation");
    peer->held_out_.emplace(std::move(held_out).value());
    const std::span<const float> weights = peer->peer_->weights();
    peer->slow_.assign(weights.begin(), weights.end());
    peer->momentum_.assign(weights.size(), 0.0F);
    return peer;
  }

  Status run() {
    say({{"event", "ready"}});
    optim::Parcel nothing;
    const Instant patience = now() + std::chrono::minutes(10);
    if (!tree_.meet(exchange_, 0, {}, patience, nothing)) {
      return Error(ErrorCode::kUnavailable, "not all of --peers have come in ten minutes");
    }
    began_ = now();
    end_ = began_ + from_seconds(options_.seconds);
    say({{"event", "begin"}});
    while (progress().steps < options_.steps && now() < end_ && step()) {
    }
    nlohmann::json line = state("end");
    line["waited_seconds"] = waited_;
    line["meetings"] = meetings_;
    say(line);
    return write();
  }

 private:
  SynchronousPeer(const Options& options, const VirtualWorld& world,
                  const optim::OuterExchange& exchange)
      : options_(options),
        world_(world),
        exchange_(exchange),
        plan_(exchange.plan(options.peers.size())),
        tree_(context_, options.peers, options.rank),
        layers_(model::make_cpu_layer_ops(team_)) {}

  TrainerProgress progress() const { return peer_->trainer().progress(); }

  // False: the time is over.
  bool step() {
    const auto peers = static_cast<double>(options_.peers.size());
    peer_->learn_clock(peers * static_cast<double>(progress().tokens));
    peer_->compute(*llama_);
    if (now() >= end_) return false;
    const bool gradient = plan_.when == When::kGradient;
    if (!gradient) peer_->trainer().update(now());
    const std::uint64_t steps = progress().steps + (gradient ? 1 : 0);
    const auto due = optim::fragment_due(world_.config.outer.rounds, StepIndex{steps});
    if (due && !meet(*due, steps)) return false;
    if (gradient) peer_->trainer().update(now());
    if (due && options_.evaluate_seconds > 0 && now() >= evaluate_at_) evaluate();
    return true;
  }

  bool meet(FragmentId fragment, std::uint64_t steps) {
    const Instant start = now();
    optim::ExchangeState state = state_of(fragment);
    optim::Parcel own, all;
    exchange_.offer(state, own);
    const bool met = tree_.meet(exchange_, steps, own, end_, all);
    if (met) exchange_.take(state, own, all);
    if (met) ++meetings_;
    waited_ += seconds_since(start);
    return met;
  }

  optim::ExchangeState state_of(FragmentId fragment) {
    const model::Range range = world_.layout.fragment(fragment);
    const auto part = [&range](DeviceSpan<float> all) {
      return std::span(all.data, all.size).subspan(range.first, range.count);
    };
    Trainer& trainer = peer_->trainer();
    return {.slow = std::span(slow_).subspan(range.first, range.count),
            .momentum = std::span(momentum_).subspan(range.first, range.count),
            .fast = part(trainer.weights()),
            .gradient = part(trainer.gradients())};
  }

  nlohmann::json state(std::string_view event) const {
    return {{"event", event},
            {"seconds", seconds_since(began_)},
            {"steps", progress().steps},
            {"tokens", progress().tokens},
            {"bytes", tree_.bytes()}};
  }

  void evaluate() {
    evaluate_at_ = now() + from_seconds(options_.evaluate_seconds);
    nlohmann::json line = state("loss");
    const ValidationBatches batches(*held_out_, world_.config.batch.sequences,
                                    world_.config.metrics.validation_batches);
    const auto tokens =
        static_cast<std::size_t>(world_.config.batch.sequences * world_.config.batch.tokens);
    std::vector<std::int32_t> inputs(tokens), targets(tokens);
    double sum = 0;
    for (std::uint32_t batch = 0; batch < batches.size(); ++batch) {
      batches.copy(batch, inputs, targets);
      const std::span<const float> weights = peer_->weights();
      llama_->forward({weights.data(), weights.size()}, {inputs, targets});
      sum += static_cast<double>(llama_->mean_loss());
    }
    line["loss"] = sum / static_cast<double>(batches.size());
    say(line);
  }

  Status write() {
    CheckpointImage image(world_.layout.elements(), true);
    peer_->trainer().copy_into(image);
    image.slow = slow_;
    image.momentum = momentum_;
    PeerConfig described = world_.config;  // a checkpoint is a peer's, and no peer runs the method
    described.outer.rule.method = optim::OuterMethod::kLocal;
    const std::string config = dump(described);
    const SectionList sections = sections_of(image, config);
    std::filesystem::create_directories(options_.out);
    CheckpointHeader header;
    header.sequence = 1;
    header.step = image.progress.steps;
    header.tokens = image.progress.tokens;
    header.digests.layout = world_.layout.digest();
    header.title = fmt::format("synchronous peer {}", options_.rank);
    return write_checkpoint(options_.out / "last.ckpt", header, sections.sections);
  }

  const Options& options_;
  const VirtualWorld& world_;
  const optim::OuterExchange& exchange_;
  const optim::ExchangePlan plan_;
  zmq::context_t context_;
  Tree tree_;
  CpuDevice device_;
  ThreadTeam team_{1};
  std::unique_ptr<model::LayerOps> layers_;
  std::optional<model::Llama> llama_;
  std::unique_ptr<VirtualPeer> peer_;
  std::optional<Dataset> held_out_;
  std::vector<float> slow_, momentum_;
  Instant began_, end_, evaluate_at_;
  double waited_ = 0;  // seconds, from an offer to what came of it
  std::uint64_t meetings_ = 0;
};

Status run(const Options& options) {
  if (options.peers.size() < 2 || options.rank >= options.peers.size()) {
    return Error(ErrorCode::kInvalidConfig,
                 "--peers: name two addresses or more; --rank: one of them, from 0");
  }
  auto config = load_simulation(options.config, options.overrides);
  if (!config.ok()) return std::move(config).error();
  auto exchange = optim::make_outer_exchange(config.value().outer.rule);
  if (!exchange.ok()) return std::move(exchange).error().with_context("outer");
  const optim::ExchangePlan plan = exchange.value()->plan(options.peers.size());
  if (plan.audience != optim::ExchangePlan::Audience::kEveryone || plan.overlap_steps > 0) {
    return Error(ErrorCode::kInvalidConfig,
                 "outer.method: all must wait for all: \"all-reduce\" or \"diloco\"");
  }
  auto world = open_world(config.value());
  if (!world.ok()) return std::move(world).error();
  auto peer = SynchronousPeer::create(options, world.value(), *exchange.value());
  return peer.ok() ? peer.value()->run() : Status(std::move(peer).error());
}

}  // namespace
}  // namespace starling::peer

int main(int argc, char** argv) {
  starling::peer::Options options;
  CLI::App app("One process of a swarm whose peers wait for each other, for comparisons.");
  app.add_option("config", options.config, "Configuration file (TOML)")->required();
  app.add_option("--set", options.overrides, "SECTION.KEY=VALUE, may be repeated");
  app.add_option("--rank", options.rank, "Of this one among --peers, from 0")->required();
  app.add_option("--peers", options.peers, "Addresses of all, HOST:PORT,...")
      ->required()
      ->delimiter(',');
  app.add_option("--seconds", options.seconds, "That it trains")->capture_default_str();
  app.add_option("--steps", options.steps, "That it makes at most");
  app.add_option("--evaluate-seconds", options.evaluate_seconds,
                 "Between two losses on held-out text; 0: none");
  app.add_option("--out", options.out, "Folder for the last checkpoint")->required();
  CLI11_PARSE(app, argc, argv);
  const starling::Status done = starling::peer::run(options);
  if (done.ok()) return 0;
  fmt::print(stderr, "synchronous_peer: {}\n", done.error().message());
  return 1;
}
