#include "peer/line_file.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "base/log.h"

namespace starling::peer {

LineFile::LineFile(uv_loop_t* loop, std::filesystem::path path, std::size_t bytes_max,
                   std::function<void()> on_idle)
    : loop_(loop), path_(std::move(path)), bytes_max_(bytes_max), on_idle_(std::move(on_idle)) {
  request_.data = this;
}

void LineFile::append(std::string_view line) {
  if (waiting_.size() + line.size() + 1 > bytes_max_) {
    ++lines_dropped_;
    return;
  }
  waiting_.append(line).push_back('\n');
  ++lines_waiting_;
  if (!writing_) begin();
}

Status LineFile::open() {
  auto file = FileHandle::open(path_, O_RDWR | O_CREAT | O_APPEND);
  if (!file.ok()) return std::move(file).error();
  auto size = file_size(file.value(), path_);
  if (!size.ok()) return std::move(size).error();
  std::array<std::byte, 1> last{std::byte{'\n'}};
  if (size.value() > 0) {
    auto read = read_at(file.value(), path_, size.value() - 1, last);
    if (!read.ok()) return read;
  }
  torn_ = last[0] != std::byte{'\n'};
  file_ = std::move(file).value();
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
  if (std::exchange(torn_, false)) under_way_.insert(0, 1, '\n');
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
    torn_ = written_ > 0;
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
    lines_written_ += lines_under_way_;
    failing_ = false;
  }
  writing_ = false;
  if (!waiting_.empty()) return begin();
  on_idle_();
}

void LineFile::drop(const Error& error) {
  lines_dropped_ += lines_under_way_;
  if (!std::exchange(failing_, true)) {
    log_warning("{}; lines are dropped until it works again", error.message());
  }
}

}  // namespace starling::peer
