#include "peer/files/key_files.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "tests/peer/file_steps.h"

namespace starling::peer {

using starling::testing::read_file;
using starling::testing::write_file;

namespace {

unsigned mode_of(const std::filesystem::path& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 0777U;
}

void allow_others(const std::filesystem::path& path, mode_t mode) {
  REQUIRE(::chmod(path.c_str(), mode) == 0);
}

bool says(const Error& error, std::string_view what) {
  return error.message().find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("a key is made once, for its owner's eyes only, and kept") {
  const ScratchFolder folder;
  const auto path = folder / "new/folder/key";
  CHECK(load_identity(path).error().code() == ErrorCode::kNotFound);
  auto made = load_or_make_identity(path);
  REQUIRE(made.ok());
  CHECK(mode_of(path) == 0600);
  CHECK(load_or_make_identity(path).value().key() == made.value().key());
  CHECK(load_identity(path).value().seed() == made.value().seed());
  CHECK(read_file(path).find(gossip::to_string(made.value().key())) != std::string::npos);
  CHECK(load_or_make_identity(folder / "other").value().key() != made.value().key());
}

TEST_CASE("a key or secret that others can read is refused, with what to do") {
  const ScratchFolder folder;
  REQUIRE(load_or_make_identity(folder / "key").ok());
  REQUIRE(make_secret_file(folder / "secret").ok());
  CHECK(mode_of(folder / "secret") == 0600);
  for (const mode_t mode : {0640, 0604, 0620, 0660, 0666, 0777}) {
    CAPTURE(mode);
    allow_others(folder / "key", mode);
    allow_others(folder / "secret", mode);
    auto key = load_or_make_identity(folder / "key");
    REQUIRE(!key.ok());
    CHECK(says(key.error(), "chmod 600"));
    auto secret = load_secret(folder / "secret");
    REQUIRE(!secret.ok());
    CHECK(says(secret.error(), "chmod 600"));
  }
  allow_others(folder / "key", 0400);
  CHECK(load_identity(folder / "key").ok());
}

TEST_CASE("a key in the place of an allow-list or a secret is told as that") {
  const ScratchFolder folder;
  REQUIRE(load_or_make_identity(folder / "key").ok());
  auto list = load_allow_list(folder / "key");
  REQUIRE_FALSE(list.ok());
  CHECK(says(list.error(), "secret key of a peer"));
  auto secret = load_secret(folder / "key");
  REQUIRE_FALSE(secret.ok());
  CHECK(says(secret.error(), "keygen --secret"));
}

TEST_CASE("a secret in the place of a key is told as no key, and what is not there as that") {
  const ScratchFolder folder;
  REQUIRE(make_secret_file(folder / "secret").ok());
  auto identity = load_identity(folder / "secret");
  REQUIRE_FALSE(identity.ok());
  CHECK(says(identity.error(), "is not the key of a peer"));
  CHECK(says(load_secret(folder / "absent").error(), "copy the secret of the swarm there"));
  CHECK(says(load_allow_list(folder / "absent").error(), "one a line"));
}

TEST_CASE("a file that is no key is told as that, whoever can read it") {
  const ScratchFolder folder;
  write_file(folder / "book.txt", "In the beginning");
  allow_others(folder / "book.txt", 0644);
  auto identity = load_identity(folder / "book.txt");
  REQUIRE_FALSE(identity.ok());
  CHECK(says(identity.error(), "is not the key of a peer"));
  CHECK_FALSE(says(identity.error(), "chmod"));
}

TEST_CASE("a damaged key file is an error and is not replaced") {
  const ScratchFolder folder;
  const auto path = folder / "key";
  const std::string good(64, '1');  // the seed of a key without a sign, or another line is needed
  for (const std::string& text :
       {std::string(), std::string("#"), std::string("# comment only\n"), std::string(63, 'a'),
        std::string(65, 'a'), std::string(64, 'g'), good + "\n" + good, std::string(100000, 'a')}) {
    write_file(path, text);
    allow_others(path, 0600);
    auto loaded = load_or_make_identity(path);
    REQUIRE(!loaded.ok());
    CHECK(loaded.error().code() == ErrorCode::kCorrupt);
    CHECK(says(loaded.error(), path.string()));
    CHECK(read_file(path) == text);
  }
}

TEST_CASE("a secret is long enough, and a new one never takes an old one's place") {
  const ScratchFolder folder;
  const auto path = folder / "secret";
  REQUIRE(make_secret_file(path).ok());
  const std::string text = read_file(path);
  CHECK(text.size() == std::string("swarm-secret-").size() + 65);
  CHECK(!make_secret_file(path).ok());
  CHECK(read_file(path) == text);

  const gossip::SwarmSecret::Greeting greeting{gossip::stand_in_key(PeerId{1}),
                                               gossip::stand_in_key(PeerId{2}), 3};
  const auto proof = load_secret(path).value().prove(greeting);
  write_file(path, text.substr(0, text.size() - 1));  // a line feed at the end is not part of it
  CHECK(load_secret(path).value().holds(proof, greeting));
  write_file(path, std::string(31, 'x') + "\n");
  auto loaded = load_secret(path);
  REQUIRE(!loaded.ok());
  CHECK(says(loaded.error(), "31 bytes"));
}

TEST_CASE("a bad allow-list is named with its line") {
  const ScratchFolder folder;
  const std::string key = gossip::to_string(gossip::stand_in_key(PeerId{7}));
  write_file(folder / "allow", key + " seven\n");
  CHECK(load_allow_list(folder / "allow").value().size() == 1);
  write_file(folder / "allow", key + " seven\nnobody\n");
  auto list = load_allow_list(folder / "allow");
  REQUIRE(!list.ok());
  CHECK(says(list.error(), (folder / "allow").string() + ": line 2"));
}

namespace {

std::string line_of(std::uint64_t peer) {
  return gossip::to_string(gossip::stand_in_key(PeerId{peer})) + "\n";
}

// How many keys the second look has found; nothing: no news at either.
std::optional<std::size_t> keys_after_two_looks(AllowListWatch& watch) {
  CHECK(!watch.look());
  auto list = watch.look();
  return list ? std::optional(list->value().size()) : std::nullopt;
}

}  // namespace

TEST_CASE("an allow-list that was written or replaced is taken once, after two looks") {
  const ScratchFolder folder;
  const auto path = folder / "allow";
  write_file(path, line_of(7));
  AllowListWatch watch(path);
  CHECK(!keys_after_two_looks(watch));
  write_file(path, line_of(7) + line_of(8));
  CHECK(keys_after_two_looks(watch) == 2);
  CHECK(!keys_after_two_looks(watch));
  write_file(folder / "beside", line_of(9));
  std::filesystem::rename(folder / "beside", path);
  CHECK(keys_after_two_looks(watch) == 1);
}

TEST_CASE("an allow-list that is still being copied shuts nobody out") {
  const ScratchFolder folder;
  const auto path = folder / "allow";
  const std::string whole = line_of(7) + line_of(8) + line_of(9);
  write_file(path, whole);
  AllowListWatch watch(path);
  for (const std::size_t bytes : {std::size_t{0}, line_of(7).size(), 2 * line_of(7).size()}) {
    write_file(path, whole.substr(0, bytes));
    CHECK(!watch.look());
  }
  write_file(path, whole);
  CHECK(!keys_after_two_looks(watch));
  std::filesystem::rename(path, folder / "beside");  // away for a look
  CHECK(!watch.look());
  std::filesystem::rename(folder / "beside", path);
  CHECK(!keys_after_two_looks(watch));
}

TEST_CASE("an allow-list that names nobody any more, is cut in a key or away is refused once") {
  const ScratchFolder folder;
  const auto path = folder / "allow";
  std::string says_what;
  write_file(path, line_of(7));
  AllowListWatch watch(path);
  SUBCASE("empty") { write_file(path, ""), says_what = "own"; }
  SUBCASE("only a comment") { write_file(path, "# nobody\n"), says_what = "own"; }
  SUBCASE("cut") { write_file(path, line_of(7).substr(0, 40)), says_what = "line 1"; }
  SUBCASE("away") { std::filesystem::remove(path), says_what = "allow"; }
  CHECK(!watch.look());
  auto refused = watch.look();
  REQUIRE(refused);
  REQUIRE(!refused->ok());
  CHECK(says(refused->error(), says_what));
  CHECK(!keys_after_two_looks(watch));
  write_file(path, line_of(8));
  CHECK(keys_after_two_looks(watch) == 1);
}

TEST_CASE("an allow-list that never named anybody may stay so") {
  const ScratchFolder folder;
  const auto path = folder / "allow";
  write_file(path, "");
  AllowListWatch watch(path);
  write_file(path, "# nobody yet\n");
  CHECK(keys_after_two_looks(watch) == 0);
}

}  // namespace starling::peer
