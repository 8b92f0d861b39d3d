#include "peer/roles/peer.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/this_thread.h"
#include "gossip/wire/wire.h"
#include "model/param_layout.h"
#include "peer/files/checkpoint_parts.h"
#include "peer/files/disk.h"
#include "peer/files/run_folder.h"
#include "peer/files/stored_model.h"
#include "peer/files/tokenizer_file.h"
#include "peer/io/clock.h"
#include "peer/machine/backend.h"
#include "peer/machine/free_memory.h"
#include "peer/roles/dataset_source.h"
#include "peer/roles/joining.h"
#include "peer/roles/memory_plan.h"
#include "peer/roles/mixer.h"
#include "peer/roles/network.h"
#include "peer/roles/open_link.h"
#include "peer/roles/pools.h"
#include "peer/roles/role_settings.h"
#include "peer/roles/run_start.h"
#include "peer/roles/status_role.h"
#include "peer/roles/trainer.h"
#include "peer/status/metrics_files.h"

namespace starling::peer {

namespace {

constexpr int kFinalTries = 60;  // ten minutes: somebody may only have to make room
constexpr auto kIdle = std::chrono::milliseconds(1);  // between boundaries when nothing is trained

class Peer {
 public:
  static Result<std::unique_ptr<Peer>> create(const PeerConfig& config, const PeerOptions& options);
  Status run();

 private:
  Peer(const PeerConfig& config, const PeerOptions& options, model::ParamLayout layout,
       RunFolder folder)
      : config_(config),
        options_(options),
        layout_(std::move(layout)),
        stripes_(layout_),
        folder_(std::move(folder)),
        exchanges_(config.outer.rule.method != optim::OuterMethod::kLocal) {}

  Status open_data();
  Status make_roles();
  Status restore();
  Status join();
  CheckpointDigests digests() const { return run_digests(config_.run.name, start_, layout_); }
  void save(std::unique_ptr<CheckpointImage> image);
  void begin();
  void train();

  PeerConfig config_;  // constant, but that make_roles() puts the size that fits for "auto"
  const PeerOptions options_;
  const model::ParamLayout layout_;
  const StripeTable stripes_;
  RunFolder folder_;
  const bool exchanges_;
  std::optional<gossip::Identity> identity_;
  std::optional<gossip::IdentitySeal> seal_;

  RunStart start_;  // its weights until they are used
  std::optional<Dataset> training_, validation_;
  std::optional<ValidationBatches> held_out_;
  ReadingPlan reading_;
  std::string tokenizer_;  // the name of the one that made the data
  Backend backend_;
  std::optional<SlotPool> floats_, payloads_;
  std::optional<Rings> rings_;
  TrainerMetrics trainer_metrics_;
  std::optional<DatasetSource> source_;
  MixerMetrics mixer_metrics_;
  Ending ending_;
  std::filesystem::path newest_checkpoint_;  // of an earlier process, that this one goes on from
  std::uint64_t resumed_ = 0;                // its steps
  std::unique_ptr<CheckpointImage> image_;   // until it starts on its round
  bool joined_ = true;                       // false: stopped before it could start
  std::optional<Error> final_error_;         // disk thread; read when it has ended
  std::unique_ptr<Disk> disk_;
  std::optional<MetricsFiles> metrics_;
  std::optional<std::uint64_t> memory_;  // bytes that were free for the roles; empty: not known
  std::unique_ptr<Joining> joining_;     // null: trains alone
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<Mixer> mixer_;
  std::unique_ptr<StatusRole> status_;
  std::unique_ptr<Network> network_;
  std::vector<Buffer> pinned_;  // of the image, wherever it is; goes first
};

Result<std::unique_ptr<Peer>> Peer::create(const PeerConfig& config, const PeerOptions& options) {
  auto layout = model::ParamLayout::plan(config.model, config.outer.rounds.fragments);
  if (!layout.ok()) return std::move(layout).error();
  auto folder = RunFolder::open(run_folder_names(config));
  if (!folder.ok()) return std::move(folder).error();
  std::unique_ptr<Peer> peer(
      new Peer(config, options, std::move(layout).value(), std::move(folder).value()));
  for (const auto step : {&Peer::open_data, &Peer::make_roles, &Peer::restore, &Peer::join}) {
    Status done = (peer.get()->*step)();
    if (!done.ok()) return std::move(done).error();
  }
  // As it came: "auto" has become a number by now.
  Status noted = peer->folder_.note_start(dump(config), config.checkpoint.resume == Resume::kNever);
  if (!noted.ok()) return std::move(noted).error();
  return peer;
}

Status Peer::open_data() {
  auto start = open_start(config_.run.start, layout_, config_.data.train);
  if (!start.ok()) return std::move(start).error().with_context("run.start");
  start_ = std::move(start).value();
  auto identity = open_identity(config_, folder_);
  if (!identity.ok()) return std::move(identity).error();
  identity_.emplace(std::move(identity).value());
  auto data = peer::open_data(config_);
  if (!data.ok()) return std::move(data).error();
  training_.emplace(std::move(data.value().training));
  validation_ = std::move(data.value().validation);
  if (validation_) {
    held_out_.emplace(*validation_, config_.batch.sequences, config_.metrics.validation_batches);
  }
  // Peers of one run read in different orders: the stream is the peer's name.
  reading_ = reading_plan(*training_, config_.model.context,
                          {.seed = config_.data.seed, .stream = digest(config_.run.peer_name)});
  return ok_status();
}

Status Peer::make_roles() {
  memory_ = memory_available();  // before anything is taken of it
  const TeamWish wish{.threads = config_.device.threads, .pin = config_.device.pin};
  auto backend = make_backend(config_.device.name, wish, config_.device.compute,
                              gpu_judge(config_, layout_, stripes_));
  if (!backend.ok()) return std::move(backend).error();
  backend_ = std::move(backend).value();
  log_info("device: {}", backend_.title);
  if (!backend_.why_cpu.empty()) log_info("no GPU: {}", backend_.why_cpu);
  // Whatever starts from here on inherits it, threads of libraries too; the trainer's pins itself.
  if (backend_.is_far()) memory_ = memory_available();  // less what CUDA took of the host's
  keep_this_thread_on(backend_.processors.rest);
  const std::size_t float_bytes = float_slot_bytes(stripes_.parameters_max());
  const std::size_t payload_bytes = payload_slot_bytes(stripes_.parameters_max());
  const std::uint32_t slots = exchanges_ ? slot_count(config_, stripes_) : 0;
  auto floats = pool_memory(*backend_.device, slots, float_bytes, "gossip.slots");
  if (!floats.ok()) return std::move(floats).error();
  auto payloads = pool_memory(*backend_.device, slots, payload_bytes, "gossip.slots");
  if (!payloads.ok()) return std::move(payloads).error();
  floats_.emplace(std::move(floats).value(), slots);
  payloads_.emplace(std::move(payloads).value(), slots);
  rings_.emplace(std::max(slots, 1U));
  source_.emplace(*training_, held_out_, reading_, *rings_, trainer_metrics_.data);
  const DeviceNeeds needs = needs_of(backend_);
  auto tries = micro_batches_to_try(memory_, config_, layout_, stripes_, needs);
  if (!tries.ok()) return std::move(tries).error();
  if (backend_.is_far()) memory_.reset();  // which is of another memory than the batch
  auto trainer = start_with_first(tries.value(), [&](std::int64_t micro) {
    config_.micro_batch = micro;
    return Trainer::create(trainer_config(config_, exchanges_, needs), layout_, stripes_, backend_,
                           *source_, *floats_, *rings_, trainer_metrics_);
  });
  if (!trainer.ok()) return std::move(trainer).error();
  trainer_ = std::move(trainer).value();
  trainer_->heed(ending_.stop);
  auto rule = optim::make_outer_rule(config_.outer.rule);
  if (!rule.ok()) return std::move(rule).error();
  mixer_ = std::make_unique<Mixer>(
      MixerConfig{.clip_factor = config_.outer.clip_factor, .head_bytes = gossip::kBulkHeadBytes},
      stripes_, std::move(rule).value(), *floats_, *payloads_, *rings_, mixer_metrics_,
      [this] { network_->wake(); });
  return ok_status();
}

Status Peer::restore() {
  auto store = open_checkpoints(config_, folder_);
  if (!store.ok()) return std::move(store).error();
  tokenizer_ = keep_for_checkpoints(config_.data.train, store.value().folder());
  image_ = std::make_unique<CheckpointImage>(layout_.elements(), exchanges_);
  pinned_ = pin(backend_, {image_->weights, image_->first_moment, image_->second_moment});
  bool fresh = true;
  if (config_.checkpoint.resume != Resume::kNever) {
    auto newest = restore_newest(store.value(), digests(), config_, *image_);
    if (!newest.ok()) return std::move(newest).error();
    newest_checkpoint_ = newest.value();
    fresh = newest_checkpoint_.empty();
    resumed_ = image_->progress.steps;
    if (!fresh) {
      const bool done = image_->progress.tokens >= config_.run.tokens;
      log_info("going on from {} after {} steps{}", newest_checkpoint_.string(),
               image_->progress.steps, done ? ": all of run.tokens; raise it to train on" : "");
    }
  }
  if (fresh && config_.checkpoint.resume == Resume::kRequired) {
    return Error(ErrorCode::kNotFound, "checkpoint.resume = \"required\", but there is none in " +
                                           store.value().folder().string());
  }
  if (fresh) {
    if (!start_.weights.empty()) trainer_->start_from(start_.weights);
    backend_.device->copy_out(Lane::kCompute, std::as_writable_bytes(std::span(image_->weights)),
                              trainer_->weights().bytes());
    backend_.device->drain();
    mixer_->start(image_->weights);
  } else {
    trainer_->restore(*image_);
    mixer_->restore(*image_);
    if (!source_->restore(image_->data)) {
      log_warning("data.train, or its parts, changed since that checkpoint: read from the start");
    }
  }
  start_.weights = std::vector<float>();  // {} would keep the memory
  source_->save(image_->data);            // from here on it has the size that every save needs
  disk_ = std::make_unique<Disk>(std::move(store).value());
  metrics_.emplace(*disk_, folder_, config_.metrics.tensorboard);
  return ok_status();
}

Status Peer::join() {
  auto settings = network_config(config_);
  if (!settings.ok()) return std::move(settings).error();
  NetworkConfig network = std::move(settings).value();
  leave_out_own_seed(network, identity_->key());
  network.checkpoint = newest_checkpoint_.string();
  network.tokens_before = trainer_->progress().tokens;
  network.status_lines = options_.status_json;
  network.device = backend_.title;
  if (exchanges_) {  // before anybody can ask how this peer does: it reads what it has fetched
    auto joining = Joining::open(config_, folder_.path() / "join", stripes_, digests(),
                                 *backend_.device, *disk_);
    if (!joining.ok()) return std::move(joining).error().with_context("join");
    joining_ = std::move(joining).value();
  }
  auto status = StatusRole::start(config_, status_facts(config_, *identity_, backend_.title));
  if (!status.ok()) return std::move(status).error();
  status_ = std::move(status).value();
  network_ = std::make_unique<Network>(
      network, *rings_, trainer_metrics_, mixer_metrics_, ending_,
      NetworkOutlets{
          .metrics = [this](const nlohmann::json& line) { metrics_->write(line, wall_now()); },
          .event = [this](const std::string& line) { disk_->append(folder_.events(), line); },
          .traffic = [this](const std::string& lines) { disk_->append(folder_.traffic(), lines); },
          .checkpoint = [this](std::unique_ptr<CheckpointImage> image) { save(std::move(image)); },
          .disk = [this] { return disk_->stats(); },
          .status = status_->outlet(),
      });
  if (!exchanges_) return ok_status();
  gossip::CoreIdentity identity;
  identity.run = run_identity(config_.run, digests(), tokenizer_);
  auto link = open_link(config_, *identity_, identity.run, folder_.incarnation());
  if (!link.ok()) return std::move(link).error();
  identity.self.key = {identity_->id(), folder_.incarnation()};
  auto address = advertised_address(config_.gossip, link.value().local_address());
  if (!address.ok()) return std::move(address).error();
  identity.self.address = address.value();
  identity.self.dialable = false;  // until somebody has
  identity.seal = &seal_.emplace(*identity_);
  identity.stripes = stripes_.counts();
  identity.data = {.digest = reading_.space, .parts = reading_.parts};
  identity.seed = mix64(identity_->id().value ^ folder_.incarnation());
  say_how_to_join(identity.self.address);
  network_->attach(gossip::Core(gossip_config(config_), identity,
                                restored_state(*image_, mixer_->ledger_rows()), peer::now()),
                   std::move(link).value(), driver_limits(config_, stripes_),
                   traffic_plan(config_.bandwidth, folder_.traffic(), options_.date()),
                   options_.date);
  joining_->desk().note_checkpoint(newest_checkpoint_);
  const bool trains = !trainer_->finished();  // or what it has come to is not to be replaced
  network_->keep_states(joining_->desk(), trains ? joining_->fetch() : std::nullopt);
  return ok_status();
}

// From the network's thread to the disk's, and the image home again.
void Peer::save(std::unique_ptr<CheckpointImage> image) {
  if (!image->sound) {  // what is on disk is better
    const bool last = image->final;
    const bool room = rings_->images_to_trainer.try_push(std::move(image));
    STARLING_ASSERT(room);
    if (last) ending_.written.raise();
    return;
  }
  CheckpointJob job;
  job.header = {.step = image->progress.steps,
                .tokens = image->progress.tokens,
                .peer = identity_->id().value,
                .incarnation = folder_.incarnation(),
                .digests = digests(),
                .title = run_title(config_)};
  job.contents = sections_of(*image, dump(config_), tokenizer_);
  if (image->final) job.more_tries = kFinalTries;
  const bool same = image->progress.steps == resumed_ && !trainer_metrics_.corrections.value();
  if (image->final && same) job.replaces = newest_checkpoint_;
  job.tried_again = [this] {
    if (joining_) joining_->note_written(false);
  };
  // The callback comes exactly once; a std::function cannot own a move-only value meanwhile.
  CheckpointImage* travelling = image.release();
  job.done = [this, travelling](Result<std::filesystem::path> written) {
    std::unique_ptr<CheckpointImage> home(travelling);
    const bool last = home->final;
    if (joining_) joining_->note_written(written.ok());
    if (written.ok()) {
      network_->note_checkpoint(written.value().string(), home->progress, last);
    } else if (last) {
      final_error_ = std::move(written).error().with_context("the final checkpoint");
    }
    const bool room = rings_->images_to_trainer.try_push(std::move(home));
    STARLING_ASSERT(room);
    if (last) ending_.written.raise();
  };
  disk_->submit(std::move(job));
}

// Decides with which weights trainer and mixer start, whose threads do not run yet.
void Peer::begin() {
  const bool fetches = joining_ && !trainer_->finished();
  const Start start = fetches ? joining_->wait(*network_, ending_, *image_) : Start::kAsItIs;
  if (start == Start::kStopped) joined_ = false;
  if (start != Start::kFetched) {
    const bool room = rings_->images_to_trainer.try_push(std::move(image_));
    STARLING_ASSERT(room);
    return;
  }
  newest_checkpoint_.clear();
  trainer_->restore(*image_);
  mixer_->restore(*image_);
  save(std::move(image_));  // the first checkpoint: what was fetched is not fetched again
}

void Peer::train() {
  if (backend_.team) backend_.team->pin_caller();
  while (!joined_ && !ending_.closed.raised()) std::this_thread::sleep_for(kIdle);
  if (!joined_) return ending_.written.raise();  // nothing was trained that could be written
  while (!trainer_->finished() && !ending_.stop.raised()) trainer_->pump();
  while (!ending_.closed.raised()) {  // corrections still come
    trainer_->boundary();
    std::this_thread::sleep_for(kIdle);
  }
  trainer_->boundary();
  trainer_->boundary();  // adds what the one before it brought to a GPU
  const std::optional<float> measured = trainer_->try_validate();
  if (measured) log_info("validation loss {:.4f}", *measured);
  trainer_->report_last_step(measured);  // before the image, so that it is on disk before that
  trainer_->request_final_image();
  while (!ending_.written.raised()) {
    trainer_->boundary();
    std::this_thread::sleep_for(kIdle);
  }
}

Status Peer::run() {
  log_info("{}", run_title(config_));
  const MemoryPlan plan = plan_memory(config_, layout_, stripes_, needs_of(backend_));
  log_info("memory: {}; {}", plan.describe(), describe_batch(config_, plan, memory_));
  image_->final = false;
  std::thread disk([this] { name_this_thread("disk"), disk_->run(); });
  std::thread network([this] { name_this_thread("network"), network_->run(); });
  begin();
  std::thread trainer([this] { name_this_thread("trainer"), train(); });
  Flag mixer_stop;
  std::thread mixer([this, &mixer_stop] {
    name_this_thread("mixer");
    while (true) {  // observed before it is asked: the last ring is not lost
      const auto seen = rings_->mixer_bell.observe();
      if (mixer_stop.raised()) break;
      if (!mixer_->pump()) rings_->mixer_bell.wait_past(seen);
    }
  });
  trainer.join();
  network.join();
  mixer_stop.raise();
  rings_->mixer_bell.ring();
  mixer.join();
  disk_->stop();
  disk.join();
  if (final_error_) return std::move(*final_error_);
  if (!network_->sickness().empty()) return Error(ErrorCode::kCorrupt, network_->sickness());
  return ok_status();
}

}  // namespace

Status run_peer(const PeerConfig& config, const PeerOptions& options) {
  const BackgroundLog log(config.run.peer_name, config.run.log_level);
  auto peer = Peer::create(config, options);
  if (!peer.ok()) return std::move(peer).error();
  return peer.value()->run();
}

}  // namespace starling::peer
