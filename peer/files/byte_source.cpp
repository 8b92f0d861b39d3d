#include "peer/files/byte_source.h"

#include <fcntl.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "peer/io/file_io.h"

namespace starling::peer {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPackedBytes = std::size_t{256} << 10;

class PlainSource final : public ByteSource {
 public:
  static Result<PlainSource> open(const fs::path& path) {
    auto file = FileHandle::open(path, O_RDONLY);
    if (!file.ok()) return std::move(file).error();
    auto size = file_size(file.value(), path);
    if (!size.ok()) return std::move(size).error();
    return PlainSource(path, std::move(file).value(), size.value());
  }
  PlainSource(PlainSource&& other) noexcept
      : path_(std::move(other.path_)),
        file_(std::move(other.file_)),
        size_(other.size_),
        at_(other.at_) {}

  Result<std::size_t> read(std::span<char> target) override {
    target = target.first(std::min<std::uint64_t>(target.size(), size_ - at_));
    Status read = read_at(file_, path_, at_, std::as_writable_bytes(target));
    if (!read.ok()) return std::move(read).error();
    at_ += target.size();
    return target.size();
  }

  const fs::path& path() const noexcept { return path_; }
  std::uint64_t size() const noexcept { return size_; }

 private:
  PlainSource(fs::path path, FileHandle file, std::uint64_t size)
      : path_(std::move(path)), file_(std::move(file)), size_(size) {}
  fs::path path_;
  FileHandle file_;
  std::uint64_t size_, at_ = 0;
};

// The packed bytes, handed out as one window after the other.
class PackedBytes {
 public:
  explicit PackedBytes(PlainSource source) : source_(std::move(source)), bytes_(kPackedBytes) {}

  // What is there; reads on when nothing is left of it. Empty at the end of the file.
  Result<std::span<char>> rest() {
    if (rest_.empty()) {
      auto read = source_.read(bytes_);
      if (!read.ok()) return std::move(read).error();
      rest_ = std::span(bytes_).first(read.value());
    }
    return rest_;
  }
  void drop(std::size_t count) { rest_ = rest_.subspan(count); }
  Error corrupt(const char* what) const {
    return Error(ErrorCode::kCorrupt, source_.path().string() + ": " + what);
  }

 private:
  PlainSource source_;
  std::vector<char> bytes_;
  std::span<char> rest_;
};

class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(PlainSource source) : packed_(std::move(source)) {
    constexpr int kGzip = 16;  // zlib's way to ask for gzip's header and trailer
    const int started = inflateInit2(&stream_, MAX_WBITS + kGzip);
    STARLING_ASSERT(started == Z_OK);
  }
  ~GzipSource() override { inflateEnd(&stream_); }

  Result<std::size_t> read(std::span<char> target) override {
    for (;;) {
      auto rest = packed_.rest();
      if (!rest.ok()) return std::move(rest).error();
      if (rest.value().empty() && between_) return std::size_t{0};
      if (rest.value().empty()) return packed_.corrupt("the gzip file is cut short");
      if (padding_ && rest.value().front() == 0) {  // what tapes and some tools put at the end
        packed_.drop(1);
        continue;
      }
      auto unpacked = unpack(rest.value(), target);
      if (!unpacked.ok() || unpacked.value() > 0) return unpacked;
    }
  }

 private:
  Result<std::size_t> unpack(std::span<char> packed, std::span<char> target) {
    stream_.next_in = reinterpret_cast<Bytef*>(packed.data());
    stream_.avail_in = static_cast<uInt>(packed.size());
    stream_.next_out = reinterpret_cast<Bytef*>(target.data());
    const std::size_t room = std::min(target.size(), std::size_t{1} << 30);  // fits zlib's type
    stream_.avail_out = static_cast<uInt>(room);
    const int outcome = inflate(&stream_, Z_NO_FLUSH);
    if (outcome != Z_OK && outcome != Z_STREAM_END) {
      return packed_.corrupt("the gzip file is damaged, or is none");
    }
    packed_.drop(packed.size() - stream_.avail_in);
    between_ = padding_ = outcome == Z_STREAM_END;
    if (between_) inflateReset(&stream_);
    return room - stream_.avail_out;
  }

  PackedBytes packed_;
  z_stream stream_{};
  bool between_ = false;  // a member has ended, and no other has begun
  bool padding_ = false;  // the same; a file may not begin with padding
};

class ZstdSource final : public ByteSource {
 public:
  explicit ZstdSource(PlainSource source)
      : packed_(std::move(source)), stream_(ZSTD_createDStream()) {
    STARLING_ASSERT(stream_ != nullptr);
  }
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }

  Result<std::size_t> read(std::span<char> target) override {
    for (;;) {
      auto rest = packed_.rest();
      if (!rest.ok()) return std::move(rest).error();
      const bool at_end = rest.value().empty();
      if (at_end && between_) return std::size_t{0};
      ZSTD_inBuffer in{rest.value().data(), rest.value().size(), 0};
      ZSTD_outBuffer out{target.data(), target.size(), 0};
      const std::size_t outcome = ZSTD_decompressStream(stream_, &out, &in);
      if (ZSTD_isError(outcome) != 0) {
        return packed_.corrupt("the zstd file is damaged, or is none, or needs too much memory");
      }
      packed_.drop(in.pos);
      between_ = outcome == 0;
      if (out.pos > 0) return out.pos;
      if (at_end) return packed_.corrupt("the zstd file is cut short");
    }
  }

 private:
  PackedBytes packed_;
  ZSTD_DStream* stream_;
  bool between_ = false;  // a frame has ended, and no other has begun
};

}  // namespace

Result<std::unique_ptr<ByteSource>> open_bytes(const fs::path& path) {
  auto plain = PlainSource::open(path);
  if (!plain.ok()) return std::move(plain).error();
  std::unique_ptr<ByteSource> source;
  if (path.extension() == ".gz") {
    source = std::make_unique<GzipSource>(std::move(plain).value());
  } else if (path.extension() == ".zst") {
    source = std::make_unique<ZstdSource>(std::move(plain).value());
  } else {
    source = std::make_unique<PlainSource>(std::move(plain).value());
  }
  return source;
}

Result<std::uint64_t> unpacked_bytes(const fs::path& path) {
  if (path.extension() != ".gz" && path.extension() != ".zst") {
    auto plain = PlainSource::open(path);
    if (!plain.ok()) return std::move(plain).error();
    return plain.value().size();
  }
  auto source = open_bytes(path);
  if (!source.ok()) return std::move(source).error();
  std::vector<char> bytes(std::size_t{1} << 20);
  for (std::uint64_t size = 0;;) {
    auto read = source.value()->read(bytes);
    if (!read.ok()) return std::move(read).error();
    if (read.value() == 0) return size;
    size += read.value();
  }
}

}  // namespace starling::peer
