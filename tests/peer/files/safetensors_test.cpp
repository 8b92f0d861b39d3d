#include "peer/files/safetensors.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "base/bf16.h"
#include "peer/files/fp16.h"
#include "tests/peer/scratch_folder.h"

namespace starling::peer {
namespace {

const std::string kTwo = R"({"__metadata__":{"format":"pt"},)"
                         R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[24,28]},)"
                         R"("a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})";

std::string refusal(const std::string& header, std::uint64_t data_bytes) {
  auto table = parse_safetensors(header, data_bytes);
  REQUIRE_FALSE(table.ok());
  return table.error().message();
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::filesystem::path write_file(const ScratchFolder& folder, const std::string& bytes) {
  const std::filesystem::path path = folder.path() / "file.safetensors";
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string with_length(const std::string& header, std::uint64_t length) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header;
}

std::string changed(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a safetensors header tells type, shape and place of each tensor") {
  auto table = parse_safetensors(kTwo + "   ", 28);
  REQUIRE(table.ok());
  REQUIRE(table.value().size() == 2);
  const SafeTensor& a = table.value().at("a");
  CHECK(a.dtype == "F32");
  CHECK(a.shape == std::vector<std::int64_t>{2, 3});
  CHECK(a.elements() == 6);
  CHECK(table.value().at("b").first == 24);
}

TEST_CASE("a tensor of no dimensions is one number and one of size zero is none") {
  auto table = parse_safetensors(R"({"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                                 R"("e":{"dtype":"F32","shape":[0,7],"data_offsets":[4,4]}})",
                                 4);
  REQUIRE(table.ok());
  CHECK(table.value().at("s").elements() == 1);
  CHECK(table.value().at("e").elements() == 0);
}

TEST_CASE("a safetensors header that does not agree with its file is refused with the reason") {
  CHECK(mentions(refusal(kTwo, 27), "cut off"));
  CHECK(mentions(refusal(kTwo, 29), "29 are there"));
  CHECK(mentions(refusal(changed(kTwo, "[24,28]", "[20,24]"), 28), "overlap"));
  CHECK(mentions(refusal(changed(kTwo, "[24,28]", "[28,32]"), 32), "gap"));
  CHECK(mentions(refusal(changed(kTwo, "[24,28]", "[24,30]"), 30), "shape"));
  CHECK(mentions(refusal(changed(kTwo, "[24,28]", "[28,24]"), 28), "shape"));
  CHECK(mentions(refusal(changed(kTwo, "[2,3]", "[-2,3]"), 28), "sizes"));
  CHECK(mentions(refusal(changed(kTwo, "[2,3]", "[4294967296,4294967296,6]"), 28), "shape"));
  CHECK(mentions(refusal(changed(kTwo, "[2,3]", "[4611686018427387904,4]"), 28), "shape"));
  CHECK(mentions(refusal(changed(kTwo, "\"BF16\"", "\"BF17\""), 28), "BF17"));
  CHECK(mentions(refusal(changed(kTwo, "\"b\"", "\"a\""), 28), "JSON"));  // a name twice
  CHECK(mentions(refusal("[1]", 0), "JSON"));
  CHECK(mentions(refusal("{\"a\"", 0), "JSON"));
  CHECK(mentions(refusal(R"({"a":7})", 0), "object"));
  CHECK(mentions(refusal(R"({"a":{"dtype":"F32","shape":[1]}})", 4), "missing"));
  CHECK(mentions(refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,1,4]}})", 4),
                 "data_offsets"));
  CHECK(refusal(std::string(100'000, '['), 0).size() < 200);
}

TEST_CASE("a safetensors file whose header is longer than it or than any is refused unread") {
  const ScratchFolder folder;
  for (const std::uint64_t length : {std::uint64_t{3}, std::uint64_t{1} << 40, UINT64_MAX}) {
    CAPTURE(length);
    auto file = SafeTensorsFile::open(write_file(folder, with_length("{}", length)));
    REQUIRE_FALSE(file.ok());
    CHECK(mentions(file.error().message(), "longer than the file"));
    CHECK(mentions(file.error().message(), "file.safetensors"));
  }
  CHECK_FALSE(SafeTensorsFile::open(write_file(folder, "1234567")).ok());
  CHECK_FALSE(SafeTensorsFile::open(write_file(folder, "")).ok());
  CHECK(SafeTensorsFile::open(write_file(folder, with_length("{}", 2))).ok());
  const std::uint64_t large = kSafeTensorsHeaderMax + 1;
  auto file = SafeTensorsFile::open(
      write_file(folder, with_length(std::string(kSafeTensorsHeaderMax + 1, ' '), large)));
  REQUIRE_FALSE(file.ok());
  CHECK(mentions(file.error().message(), "that are read"));
}

TEST_CASE("what was written as safetensors is read again, in any pieces and each type") {
  const ScratchFolder folder;
  const std::vector<NamedShape> shapes = {{"first", {3, 5}}, {"second", {7}}};
  std::vector<float> values;
  for (int i = 0; i < 22; ++i) values.push_back(0.25F * static_cast<float>(i - 7));
  for (const FloatType type : {FloatType::kF32, FloatType::kBf16, FloatType::kF16}) {
    const auto path = folder.path() / std::string(to_string(type));
    auto writer = SafeTensorsWriter::create(path, type, shapes, {{"format", "pt"}});
    REQUIRE(writer.ok());
    REQUIRE(writer.value().append(std::span(values).first(4)).ok());
    REQUIRE(writer.value().append(std::span(values).subspan(4)).ok());
    REQUIRE(writer.value().finish().ok());
    auto file = SafeTensorsFile::open(path);
    REQUIRE(file.ok());
    REQUIRE(file.value().tensors().size() == 2);
    const SafeTensor& second = file.value().tensors().at("second");
    CHECK(second.first % 2 == 0);
    std::vector<float> read(5);
    REQUIRE(file.value().read(second, 2, read).ok());
    CHECK(read == std::vector<float>(values.begin() + 17, values.end()));
  }
}

TEST_CASE("metadata that is no UTF-8 is written all the same") {
  const ScratchFolder folder;
  const auto path = folder.path() / "file";
  const std::vector<NamedShape> shapes = {{"first", {1}}};
  auto writer = SafeTensorsWriter::create(path, FloatType::kF32, shapes, {{"title", "caf\xe9"}});
  REQUIRE(writer.ok());
  REQUIRE(writer.value().append(std::vector<float>{1}).ok());
  REQUIRE(writer.value().finish().ok());
  CHECK(SafeTensorsFile::open(path).ok());
}

TEST_CASE("integers are no weights") {
  const ScratchFolder folder;
  const std::string header = R"({"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})";
  auto file =
      SafeTensorsFile::open(write_file(folder, with_length(header, header.size()) + "1234"));
  REQUIRE(file.ok());
  std::vector<float> read(1);
  Status done = file.value().read(file.value().tensors().at("a"), 0, read);
  REQUIRE_FALSE(done.ok());
  CHECK(mentions(done.error().message(), "I32"));
}

TEST_CASE("every fp16 number survives float and back") {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const fp16 half{static_cast<std::uint16_t>(bits)};
    const float value = to_float(half);
    if (std::isnan(value)) {
      REQUIRE(std::isnan(to_float(to_fp16(value))));
    } else {
      REQUIRE(to_fp16(value).bits == half.bits);
    }
  }
}

TEST_CASE("fp16 rounds to nearest, ties to even") {
  CHECK(to_float(to_fp16(1.0F)) == 1.0F);
  CHECK(to_float(to_fp16(65504.0F)) == 65504.0F);
  CHECK(to_float(to_fp16(65519.0F)) == 65504.0F);
  CHECK(std::isinf(to_float(to_fp16(65520.0F))));
  CHECK(to_float(to_fp16(1.0F + 0x1p-11F)) == 1.0F);                // a tie, down to even
  CHECK(to_float(to_fp16(1.0F + 3 * 0x1p-11F)) == 1.0F + 0x1p-9F);  // a tie, up to even
  CHECK(to_float(to_fp16(0x1p-25F)) == 0.0F);                       // a tie, to zero
  CHECK(to_float(to_fp16(1.5F * 0x1p-25F)) == 0x1p-24F);
  CHECK(std::signbit(to_float(to_fp16(-0.0F))));
  CHECK(to_float(to_fp16(-std::numeric_limits<float>::infinity())) < -65504.0F);
}

}  // namespace starling::peer
