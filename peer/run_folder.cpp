#include "peer/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace starling::peer {

namespace {

namespace fs = std::filesystem;

struct Identity {
  std::uint64_t peer_id = 0;
  std::uint64_t incarnation = 0;
};

Result<FileHandle> take_lock(const fs::path& folder) {
  const fs::path path = folder / "lock";
  auto file = FileHandle::open(path, O_RDWR | O_CREAT);
  if (!file.ok()) return file;
  const int descriptor = file.value().get();
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return io_error("lock", path, errno);
    auto holder = read_text(path, 64);
    return Error(ErrorCode::kUnavailable,
                 fmt::format("folder {} is in use by process {}: end it, or give this peer another "
                             "run.peer_name",
                             folder.string(), holder.ok() ? holder.value() : "(unknown)"));
  }
  const std::string pid = std::to_string(::getpid());
  if (::ftruncate(descriptor, 0) != 0) return io_error("write", path, errno);
  auto written = write_all(file.value(), path, std::as_bytes(std::span(pid)));
  if (!written.ok()) return std::move(written).error();
  return file;
}

Result<std::uint64_t> draw_peer_id() {
  const fs::path source = "/dev/urandom";
  auto file = FileHandle::open(source, O_RDONLY);
  if (!file.ok()) return std::move(file).error();
  std::uint64_t id = 0;
  while (id == 0) {  // zero means nobody
    if (::read(file.value().get(), &id, sizeof(id)) != static_cast<ssize_t>(sizeof(id))) {
      return io_error("read", source, EIO);
    }
  }
  return id;
}

std::optional<Identity> parse_identity(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto id = json.find("peer_id");
  const auto incarnation = json.find("incarnation");
  if (id == json.end() || !id->is_string()) return std::nullopt;
  if (incarnation == json.end() || !incarnation->is_number_unsigned()) return std::nullopt;
  const auto& digits = id->get_ref<const std::string&>();
  if (digits.size() != 16 || digits.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return std::nullopt;
  }
  return Identity{std::stoull(digits, nullptr, 16), incarnation->get<std::uint64_t>()};
}

}  // namespace

Result<RunFolder> RunFolder::open(const RunFolderNames& names) {
  const fs::path path = names.root / names.run / names.peer;
  auto created = create_folder(path);
  if (!created.ok()) return std::move(created).error();
  auto lock = take_lock(path);
  if (!lock.ok()) return std::move(lock).error();
  RunFolder folder(path, std::move(lock).value());
  auto raised = folder.raise_incarnation();
  if (!raised.ok()) return std::move(raised).error();
  auto checkpoints = create_folder(folder.checkpoints());
  if (!checkpoints.ok()) return std::move(checkpoints).error();
  return folder;
}

Status RunFolder::raise_incarnation() {
  const fs::path path = path_ / "peer.json";
  Identity identity;
  auto text = read_text(path, 4096);
  if (text.ok()) {
    const auto parsed = parse_identity(text.value());
    if (!parsed.has_value() || parsed->peer_id == 0) {
      // A made-up identity could collide with a former life, so a person has to decide.
      return Error(ErrorCode::kCorrupt,
                   fmt::format("{} is damaged; remove it to join as a new peer", path.string()));
    }
    identity = *parsed;
  } else if (text.error().code() != ErrorCode::kNotFound) {
    return std::move(text).error();
  } else {
    auto drawn = draw_peer_id();
    if (!drawn.ok()) return std::move(drawn).error();
    identity.peer_id = drawn.value();
  }
  ++identity.incarnation;
  auto saved = replace_file(path, fmt::format("{{\"peer_id\": \"{:016x}\", \"incarnation\": {}}}\n",
                                              identity.peer_id, identity.incarnation));
  if (!saved.ok()) return saved;
  peer_id_ = PeerId{identity.peer_id};
  incarnation_ = identity.incarnation;
  return ok_status();
}

Status RunFolder::save_config(std::string_view toml) const {
  return replace_file(path_ / "config.toml", toml);
}

}  // namespace starling::peer
