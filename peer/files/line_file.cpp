#include "peer/files/line_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "base/log.h"

namespace starling::peer {

LineFile::LineFile(uv_loop_t* loop, std::filesystem::path path, Settings settings,
                   std::function<void()> on_idle)
    : loop_(loop), path_(std::move(path)), settings_(settings), on_idle_(std::move(on_idle)) {
  request_.data = this;
}

void LineFile::append(std::string_view line) {
  if (waiting_.size() + line.size() + 1 > settings_.bytes_max) {
    ++lines_dropped_;
    return;
  }
  waiting_.append(line);
  if (settings_.framing == Framing::kLines) waiting_.push_back('\n');
  ++lines_waiting_;
  if (!writing_) begin();
}

Status LineFile::open() {
  auto file = FileHandle::open(path_, O_RDWR | O_CREAT | O_APPEND);
  if (!file.ok()) return std::move(file).error();
  auto size = file_size(file.value(), path_);
  if (!size.ok()) return std::move(size).error();
  whole_ = size.value();
  std::array<std::byte, 1> last{std::byte{'\n'}};
  if (size.value() > 0 && settings_.framing == Framing::kLines) {
    auto read = read_at(file.value(), path_, size.value() - 1, last);
    if (!read.ok()) return read;
  }
  torn_ = last[0] != std::byte{'\n'};
  file_ = std::move(file).value();
  return ok_status();
}

// After a write that ended in the middle of a line or record.
Status LineFile::mend() {
  if (settings_.framing == Framing::kLines) {
    under_way_.insert(0, 1, '\n');  // torn until that is written
    return ok_status();
  }
  if (::ftruncate(file_.get(), static_cast<off_t>(whole_)) != 0) {
    return io_error("cut", path_, errno);
  }
  torn_ = false;
  return ok_status();
}

void LineFile::begin() {
  STARLING_ASSERT(!writing_);
  STARLING_ASSERT(!waiting_.empty());
  under_way_.clear();
  std::swap(under_way_, waiting_);
  lines_under_way_ = std::exchange(lines_waiting_, 0);
  written_ = 0;
  if (!file_.valid()) {
    auto opened = open();
    if (!opened.ok()) return drop(opened.error());
  }
  if (torn_) {
    auto mended = mend();
    if (!mended.ok()) return drop(mended.error());
  }
  writing_ = true;
  advance(0);
}

void LineFile::on_written(uv_fs_t* request) {
  auto* self = static_cast<LineFile*>(request->data);
  const ssize_t answer = request->result;
  uv_fs_req_cleanup(request);
  if (answer == 0) return self->advance(-EIO);  // nothing written is no progress
  self->advance(answer);
}

void LineFile::advance(ssize_t answer) {
  if (answer < 0) {
    if (written_ > 0) {  // else the end is what it was
      torn_ = settings_.framing == Framing::kRecords || under_way_[written_ - 1] != '\n';
    }
    drop(io_error("write", path_, static_cast<int>(-answer)));
  } else {
    written_ += static_cast<std::size_t>(answer);
    if (written_ < under_way_.size()) {
      uv_buf_t buffer = uv_buf_init(under_way_.data() + written_,
                                    static_cast<unsigned>(under_way_.size() - written_));
      const int refused = uv_fs_write(loop_, &request_, file_.get(), &buffer, 1, -1, on_written);
      STARLING_ASSERT(refused == 0);
      return;
    }
    whole_ += written_;
    torn_ = false;
    lines_written_ += lines_under_way_;
    failing_ = false;
  }
  writing_ = false;
  if (!waiting_.empty()) begin();
  if (!writing_) on_idle_();  // also where that failed at once
}

void LineFile::drop(const Error& error) {
  lines_dropped_ += lines_under_way_;
  if (!std::exchange(failing_, true)) {
    log_warning("{}; lines are dropped until it works again", error.message());
  }
}

}  // namespace starling::peer
