#include "peer/files/disk.h"

#include <fmt/format.h>

#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/log.h"
#include "peer/files/checkpoint_write.h"
#include "peer/files/line_file.h"
#include "peer/io/file_io.h"
#include "peer/io/human_text.h"
#include "peer/io/uv_loop.h"

namespace starling::peer {

struct Disk::Loop {
  struct Line {
    std::filesystem::path file;
    std::string text;
    Framing framing;
  };

  explicit Loop(CheckpointStore store_in) : store(std::move(store_in)) {
    auto async = std::make_unique<uv_async_t>();
    STARLING_ASSERT(uv_async_init(loop.get(), async.get(), on_bell) == 0);
    async->data = this;
    bell.reset(async.release());
  }

  // --- any thread ---
  // Leaves `incoming` alone unless it is taken.
  std::optional<Error> take(CheckpointJob& incoming) {
    const std::lock_guard lock(mutex);
    if (stopping) return Error(ErrorCode::kCancelled, "the disk role has stopped");
    if (jobs.size() >= kJobsMax) {
      return Error(ErrorCode::kExhausted, "too many checkpoints are waiting to be written");
    }
    jobs.push_back(std::move(incoming));
    uv_async_send(bell.get());
    return std::nullopt;
  }

  void take(Line line) {
    const std::lock_guard lock(mutex);
    if (stopping || line_bytes + line.text.size() > kLineBytesMax) {
      ++lines_refused;
      ++stats.lines_dropped;
      return;
    }
    line_bytes += line.text.size();
    lines.push_back(std::move(line));
    uv_async_send(bell.get());
  }

  void take(std::unique_ptr<DiskTask> incoming) {
    const std::lock_guard lock(mutex);
    if (stopping) return;
    tasks.push_back(std::move(incoming));
    uv_async_send(bell.get());
  }

  // --- the loop's thread ---
  static void on_bell(uv_async_t* bell) { static_cast<Loop*>(bell->data)->pump(); }

  void pump() {
    std::vector<Line> arrived;
    bool fresh_task = false;
    {
      const std::lock_guard lock(mutex);
      arrived.swap(lines);
      line_bytes = 0;
      if (!job.has_value() && !jobs.empty()) {
        job.emplace(std::move(jobs.front()));
        jobs.pop_front();
      }
      if (task == nullptr && !tasks.empty()) {
        task = std::move(tasks.front());
        tasks.pop_front();
        fresh_task = true;
      }
    }
    if (fresh_task) start_task();
    for (const Line& line : arrived) file(line).append(line.text);
    if (job.has_value() && write == nullptr && pause == nullptr) start_job();
    close_if_done();
  }

  LineFile& file(const Line& line) {
    auto& entry = files[line.file];
    if (entry == nullptr) {
      entry = std::make_unique<LineFile>(
          loop.get(), line.file,
          LineFile::Settings{.framing = line.framing, .bytes_max = kLineBytesMax},
          [this] { close_if_done(); });
    }
    return *entry;
  }

  void start_task() {
    request.data = this;
    const int queued = uv_queue_work(
        loop.get(), &request, [](uv_work_t* work) { static_cast<Loop*>(work->data)->task->work(); },
        [](uv_work_t* work, int) {
          auto* self = static_cast<Loop*>(work->data);
          self->task.reset();
          self->pump();
        });
    STARLING_ASSERT(queued == 0);
  }

  void start_job() {
    job->header.sequence = store.next_sequence();
    target = store.path_of(job->header.sequence);
    write =
        std::make_unique<CheckpointWrite>(loop.get(), target, job->header, job->contents.sections,
                                          [this](Status status) { end_job(std::move(status)); });
    write->start();
  }

  // The folder may be what is missing.
  void start_again() {
    pause.reset();
    Status made = create_folder(store.folder());
    if (!made.ok()) log_warning("{}", made.error().message());
    start_job();
  }

  void try_later(const Error& why) {
    std::size_t bytes = 0;
    for (const Section& section : job->contents.sections) bytes += section.size();
    log_warning(
        "checkpoint of step {} was not written: {}; it needs {} in {}, and is tried again "
        "every {:.0f} s, {} at most",
        job->header.step, why.message(), human_bytes(bytes), store.folder().string(),
        to_seconds(job->pause), counted(job->more_tries, "time"));
    --job->more_tries;
    if (job->tried_again) job->tried_again();
    auto timer = std::make_unique<uv_timer_t>();
    STARLING_ASSERT(uv_timer_init(loop.get(), timer.get()) == 0);
    timer->data = this;
    pause.reset(timer.release());
    const auto milliseconds = static_cast<std::uint64_t>(to_seconds(job->pause) * 1e3);
    STARLING_ASSERT(uv_timer_start(
                        pause.get(),
                        [](uv_timer_t* due) { static_cast<Loop*>(due->data)->start_again(); },
                        milliseconds, 0) == 0);
  }

  // Of the job under way, which is tried `again` or not.
  void note_try(const Status& status, bool again) {
    const std::lock_guard lock(mutex);
    if (status.ok()) {
      ++stats.checkpoints_written;
      stats.trouble.reset();
      return;
    }
    if (!again) ++stats.checkpoints_failed;
    if (!stats.trouble) stats.trouble.emplace().since_step = job->header.step;
    ++stats.trouble->tries;
    stats.trouble->why = status.error().message();
  }

  void end_job(Status status) {
    write.reset();
    const bool full = !status.ok() && status.error().code() == ErrorCode::kExhausted;
    if (full && store.make_room()) return start_job();
    const bool again = !status.ok() && job->more_tries > 0;
    note_try(status, again);
    if (again) return try_later(status.error());
    const CheckpointJob ended = std::move(*job);
    job.reset();
    if (status.ok()) {
      if (!ended.replaces.empty()) store.remove(ended.replaces);
      store.prune();
      ended.done(target);
    } else {
      log_warning("checkpoint of step {} was not written: {}", ended.header.step,
                  status.error().message());
      ended.done(std::move(status).error());
    }
    pump();
  }

  void close_if_done() {
    bool idle = true;
    std::uint64_t written = 0;
    std::uint64_t dropped = 0;
    for (const auto& [path, log] : files) {
      idle = idle && log->idle();
      written += log->lines_written();
      dropped += log->lines_dropped();
    }
    const std::lock_guard lock(mutex);
    stats.lines_written = written;
    stats.lines_dropped = dropped + lines_refused;
    if (!idle) return;
    if (!stopping || job.has_value() || !jobs.empty() || !lines.empty()) return;
    if (task != nullptr || !tasks.empty()) return;
    bell.reset();  // the last handle: the loop ends
  }

  UvLoop loop;
  UvHandle<uv_async_t> bell;  // set and reset under `mutex`; null: the loop has ended

  mutable std::mutex mutex;  // guards the following
  std::deque<CheckpointJob> jobs;
  std::deque<std::unique_ptr<DiskTask>> tasks;
  std::vector<Line> lines;
  std::size_t line_bytes = 0;  // in `lines`
  std::uint64_t lines_refused = 0;
  bool stopping = false;
  DiskStats stats;

  // The loop's thread only.
  CheckpointStore store;
  std::optional<CheckpointJob> job;
  std::unique_ptr<CheckpointWrite> write;  // null: none is being written
  UvHandle<uv_timer_t> pause;              // null: no job waits for another try
  std::filesystem::path target;
  std::unique_ptr<DiskTask> task;  // null: none under way
  uv_work_t request{};             // of the task
  std::map<std::filesystem::path, std::unique_ptr<LineFile>> files;
};

Disk::Disk(CheckpointStore store) : loop_(std::make_unique<Loop>(std::move(store))) {}

Disk::~Disk() {
  stop();
  run();
}

void Disk::run() { uv_run(loop_->loop.get(), UV_RUN_DEFAULT); }

void Disk::stop() {
  const std::lock_guard lock(loop_->mutex);
  loop_->stopping = true;
  if (loop_->bell != nullptr) uv_async_send(loop_->bell.get());
}

void Disk::submit(CheckpointJob job) {
  STARLING_ASSERT(job.done != nullptr);
  auto refused = loop_->take(job);
  if (refused.has_value()) job.done(std::move(*refused));
}

void Disk::perform(std::unique_ptr<DiskTask> task) { loop_->take(std::move(task)); }

void Disk::append(const std::filesystem::path& file, std::string_view line) {
  loop_->take({.file = file, .text = std::string(line), .framing = Framing::kLines});
}

void Disk::append_record(const std::filesystem::path& file, std::string_view record) {
  loop_->take({.file = file, .text = std::string(record), .framing = Framing::kRecords});
}

DiskStats Disk::stats() const {
  const std::lock_guard lock(loop_->mutex);
  return loop_->stats;
}

}  // namespace starling::peer
