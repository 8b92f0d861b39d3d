#include "peer/files/checkpoint_write.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "base/log.h"
#include "peer/io/file_io.h"
#include "peer/io/uv_loop.h"

namespace starling::peer {

namespace {
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
}  // namespace

struct CheckpointWrite::Operation {
  enum class Stage { kOpen, kWrite, kSync, kClose, kVerify, kRename, kOpenFolder, kSyncFolder };

  Operation(uv_loop_t* loop_in, std::filesystem::path target_in, const CheckpointHeader& header,
            std::span<const Section> sections, Done done_in)
      : loop(loop_in),
        target(std::move(target_in)),
        temporary(target),
        encoder(header, sections),
        done(std::move(done_in)) {
    temporary += kTemporaryExtension;
    folder = target.has_parent_path() ? target.parent_path() : ".";
    request.data = this;
    work.data = this;
  }

  // --- one call of the system each; its answer comes to advance() ---
  void begin(Stage next) {
    stage = next;
    int refused = 0;
    switch (stage) {
      case Stage::kOpen:
        refused = uv_fs_open(loop, &request, temporary.c_str(),
                             UV_FS_O_WRONLY | UV_FS_O_CREAT | UV_FS_O_TRUNC, 0644, on_answer);
        break;
      case Stage::kWrite: refused = begin_write(); break;
      case Stage::kSync: refused = uv_fs_fdatasync(loop, &request, descriptor, on_answer); break;
      case Stage::kClose:
        refused = uv_fs_close(loop, &request, std::exchange(descriptor, -1), on_answer);
        break;
      case Stage::kVerify: refused = uv_queue_work(loop, &work, verify, on_verified); break;
      case Stage::kRename:
        refused = uv_fs_rename(loop, &request, temporary.c_str(), target.c_str(), on_answer);
        break;
      case Stage::kOpenFolder:
        refused = uv_fs_open(loop, &request, folder.c_str(), UV_FS_O_RDONLY | UV_FS_O_DIRECTORY, 0,
                             on_answer);
        break;
      case Stage::kSyncFolder: refused = uv_fs_fsync(loop, &request, descriptor, on_answer); break;
    }
    // libuv refuses nothing but senseless arguments here.
    STARLING_ASSERT(refused == 0);
  }

  int begin_write() {
    uv_buf_t buffer = uv_buf_init(reinterpret_cast<char*>(const_cast<std::byte*>(piece.data())),
                                  static_cast<unsigned>(piece.size()));
    return uv_fs_write(loop, &request, descriptor, &buffer, 1, static_cast<std::int64_t>(written),
                       on_answer);
  }

  static void on_answer(uv_fs_t* request) {
    auto* self = static_cast<Operation*>(request->data);
    const ssize_t answer = request->result;
    uv_fs_req_cleanup(request);
    self->advance(answer);
  }

  // `answer` is the result of the current stage: below 0 an error number.
  void advance(ssize_t answer) {
    if (answer < 0 && stage >= Stage::kOpenFolder) return end_without_sync(answer);
    if (answer < 0) return fail(io_error(action(), temporary, static_cast<int>(-answer)));
    switch (stage) {
      case Stage::kOpen: descriptor = static_cast<int>(answer); return reserve();
      case Stage::kWrite: return wrote(static_cast<std::size_t>(answer));
      case Stage::kSync: return begin(Stage::kClose);
      case Stage::kClose: return begin(Stage::kVerify);
      case Stage::kVerify: return begin(Stage::kRename);
      case Stage::kRename: return begin(Stage::kOpenFolder);
      case Stage::kOpenFolder:
        descriptor = static_cast<int>(answer);
        return begin(Stage::kSyncFolder);
      case Stage::kSyncFolder: return finish(ok_status());
    }
  }

  // Whole, verified and under its name it is; only a power cut now might undo that.
  void end_without_sync(ssize_t answer) {
    const int number = static_cast<int>(-answer);
    if (!refuses_folders(number)) {
      log_warning("{}: {} is written, but a power cut now may lose it",
                  io_error(action(), folder, number).message(), target.string());
    }
    finish(ok_status());
  }

  void reserve() {
    const int refused = ::fallocate(descriptor, 0, 0, static_cast<off_t>(encoder.total_bytes()));
    // Not every file system can; then a full disk shows while writing.
    if (refused != 0 && errno != EOPNOTSUPP && errno != ENOSYS) {
      return fail(io_error("reserve space for", temporary, errno));
    }
    next_piece();
  }

  void next_piece() {
    auto next = encoder.next(kPieceBytes);
    if (!next.ok()) return fail(std::move(next).error());
    piece = std::move(next).value();
    if (!piece.empty()) return begin(Stage::kWrite);
    STARLING_ASSERT(written == encoder.total_bytes());
    begin(Stage::kSync);
  }

  void wrote(std::size_t bytes) {
    if (bytes == 0) return fail(io_error("write", temporary, EIO));
    STARLING_ASSERT(bytes <= piece.size());
    written += bytes;
    piece = piece.subspan(bytes);
    if (piece.empty()) return next_piece();
    begin(Stage::kWrite);
  }

  static void verify(uv_work_t* work) {  // on a thread of libuv's pool; the loop goes on
    auto* self = static_cast<Operation*>(work->data);
    auto file = CheckpointFile::open(self->temporary);
    if (!file.ok()) self->verify_error.emplace(std::move(file).error());
  }
  static void on_verified(uv_work_t* work, int status) {
    auto* self = static_cast<Operation*>(work->data);
    if (self->verify_error.has_value()) {
      return self->fail(
          std::move(*self->verify_error).with_context("reading back " + self->temporary.string()));
    }
    self->advance(status);
  }

  std::string_view action() const {
    switch (stage) {
      case Stage::kOpen: return "create";
      case Stage::kWrite: return "write";
      case Stage::kSync: return "make durable";
      case Stage::kClose: return "close";
      case Stage::kVerify: return "verify";
      case Stage::kRename: return "rename to its name";
      case Stage::kOpenFolder: return "open";
      case Stage::kSyncFolder: return "make durable";
    }
    return "write";
  }
  void fail(Error error) {
    ::unlink(temporary.c_str());
    finish(std::move(error));
  }

  void finish(Status status) {
    if (descriptor >= 0) ::close(std::exchange(descriptor, -1));
    // Moved out first: `done` may destroy this object.
    const Done call = std::move(done);
    call(std::move(status));
  }

  uv_loop_t* const loop;
  const std::filesystem::path target;
  std::filesystem::path temporary, folder;
  CheckpointEncoder encoder;
  Done done;
  Stage stage = Stage::kOpen;
  uv_fs_t request{};
  uv_work_t work{};
  int descriptor = -1;               // of the file, later of the folder
  std::span<const std::byte> piece;  // handed to the system and not yet written
  std::uint64_t written = 0;
  std::optional<Error> verify_error;  // written by the pool's thread, read after it
};

CheckpointWrite::CheckpointWrite(uv_loop_s* loop, std::filesystem::path target,
                                 const CheckpointHeader& header, std::span<const Section> sections,
                                 Done done)
    : operation_(std::make_unique<Operation>(loop, std::move(target), header, sections,
                                             std::move(done))) {}

CheckpointWrite::~CheckpointWrite() = default;

void CheckpointWrite::start() { operation_->begin(Operation::Stage::kOpen); }

Status write_checkpoint(const std::filesystem::path& target, const CheckpointHeader& header,
                        std::span<const Section> sections) {
  UvLoop loop;
  std::optional<Status> outcome;
  CheckpointWrite write(loop.get(), target, header, sections,
                        [&outcome](Status status) { outcome.emplace(std::move(status)); });
  write.start();
  uv_run(loop.get(), UV_RUN_DEFAULT);
  STARLING_ASSERT(outcome.has_value());
  return std::move(*outcome);
}

}  // namespace starling::peer
