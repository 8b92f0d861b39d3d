#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/bf16.h"
#include "base/bounded.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/rng.h"

namespace starling {

static_assert(!std::is_copy_constructible_v<Bytes>);
static_assert(!std::is_convertible_v<PeerId, FragmentId>);

TEST_CASE("an error keeps its code and gains context on the way up") {
  Result<int> result = Error(ErrorCode::kIo, "no such file");
  REQUIRE(!result.ok());
  const Error error = std::move(result).error().with_context("loading shard 3");
  CHECK(error.message() == "loading shard 3: no such file");
  CHECK(error.code() == ErrorCode::kIo);
  CHECK(error.describe().find("base_values_test.cpp") != std::string::npos);
}

TEST_CASE("xoshiro256** gives the published sequence for a known state") {
  // The first outputs for the state {1, 2, 3, 4}, worked out by hand from the definition.
  Rng rng(Rng::State{1, 2, 3, 4});
  CHECK(rng.next() == 11520);
  CHECK(rng.next() == 0);
  CHECK(rng.next() == 1509978240);
}

TEST_CASE("forked sequences differ from each other and leave the parent alone") {
  Rng parent(7);
  const Rng::State before = parent.state();
  Rng left = parent.fork(0);
  Rng right = parent.fork(1);
  CHECK(parent.state() == before);
  CHECK(left.next() != right.next());
}

TEST_CASE("below is uniform: chi squared over ten cells") {
  Rng rng(42);
  std::vector<int> counts(10, 0);
  const int draws = 100000;
  for (int i = 0; i < draws; ++i) ++counts[rng.below(10)];
  double chi = 0;
  for (int count : counts) chi += (count - draws / 10.0) * (count - draws / 10.0) / (draws / 10.0);
  CHECK(chi < 27.9);  // 9 degrees of freedom, p = 0.001
}

TEST_CASE("normal has mean 0, variance 1 and the fourth moment of twelve uniforms") {
  Rng rng(1);
  double sum = 0;
  double square = 0;
  double fourth = 0;
  const int draws = 200000;
  for (int i = 0; i < draws; ++i) {
    const double x = rng.normal();
    sum += x;
    square += x * x;
    fourth += x * x * x * x;
  }
  CHECK(std::abs(sum / draws) < 0.01);
  CHECK(std::abs(square / draws - 1) < 0.015);
  CHECK(std::abs(fourth / draws - 2.9) < 0.08);  // 3 - 6/(5*12)
}

TEST_CASE("bf16 rounds to nearest even and keeps what it can represent") {
  CHECK(to_float(to_bf16(1.0F)) == 1.0F);
  CHECK(to_float(to_bf16(-0.0F)) == 0.0F);
  CHECK(to_bf16(1.0F + 0x1p-8F).bits == 0x3F80);             // tie: to even
  CHECK(to_bf16(1.0F + 0x1p-8F + 0x1p-20F).bits == 0x3F81);  // above the tie: up
  CHECK(std::isnan(to_float(to_bf16(std::nanf("")))));
  CHECK(std::isinf(to_float(to_bf16(3.4e38F))));
}

TEST_CASE("a digest in pieces equals the digest of the whole") {
  std::string text(10000, 'x');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31);
  StreamDigest stream;
  const auto bytes = std::as_bytes(std::span(text));
  stream.update(bytes.first(17));
  stream.update(bytes.subspan(17));
  CHECK(stream.value() == digest(bytes));
  CHECK(digest(bytes.first(9999)) != digest(bytes));
}

TEST_CASE("a bounded list refuses what does not fit") {
  BoundedList<int, 2> list;
  CHECK(list.try_push(1));
  CHECK(list.try_push(2));
  CHECK(!list.try_push(3));
  CHECK(list.size() == 2);
}

TEST_CASE("bytes release their owner exactly once") {
  static int released = 0;
  released = 0;
  {
    Bytes first({}, nullptr, [](void*) noexcept { ++released; });
    Bytes second = std::move(first);
    Bytes third;
    third = std::move(second);
    CHECK(released == 0);
  }
  CHECK(released == 1);
}

}  // namespace starling
