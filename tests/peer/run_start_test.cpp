#include "peer/run_start.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/peer/model_samples.h"
#include "tests/peer/scratch_folder.h"

namespace starling::peer {
namespace {

model::ParamLayout layout_of(const PeerConfig& config, std::uint16_t fragments) {
  auto layout = model::ParamLayout::plan(config.model, fragments);
  REQUIRE(layout.ok());
  return std::move(layout).value();
}

}  // namespace

TEST_CASE("a run starts from a checkpoint's weights, whatever fragments it was cut into") {
  const ScratchFolder folder;
  const Written written = write_drawn(folder, "start.ckpt", 3);
  const model::ParamLayout other = layout_of(small_config(), 3);
  auto start = open_start(written.path.string(), other, {});
  REQUIRE(start.ok());
  std::vector<float> expected(other.elements());
  model::initialise(other, 3, expected);
  const model::ParamLayout own = layout_of(small_config(), 2);
  for (const model::ParamSlot& slot : other.slots()) {
    CAPTURE(slot.name);
    const std::size_t from = own.find(slot.name)->range.first;
    for (std::size_t i = 0; i < slot.range.count; ++i) {
      REQUIRE(start.value().weights[slot.range.first + i] == written.fast[from + i]);
    }
  }
}

TEST_CASE("runs that start from other weights are other runs") {
  const ScratchFolder folder;
  const model::ParamLayout layout = layout_of(small_config(), 2);
  auto first = open_start(write_drawn(folder, "a.ckpt", 1).path.string(), layout, {});
  auto again = open_start(write_drawn(folder, "b.ckpt", 1).path.string(), layout, {});
  auto other = open_start(write_drawn(folder, "c.ckpt", 2).path.string(), layout, {});
  auto none = open_start("", layout, {});
  REQUIRE(first.ok());
  REQUIRE(again.ok());
  REQUIRE(other.ok());
  REQUIRE(none.ok());
  const auto run = [&layout](const RunStart& start) {
    return run_digests("name", start, layout).run;
  };
  CHECK(run(first.value()) == run(again.value()));
  CHECK(run(first.value()) != run(other.value()));
  CHECK(run(first.value()) != run(none.value()));
}

TEST_CASE("a start of another model is refused and names what differs") {
  const ScratchFolder folder;
  const Written written = write_drawn(folder, "start.ckpt", 3);
  auto start = open_start(written.path.string(), layout_of(small_config("32"), 2), {});
  REQUIRE_FALSE(start.ok());
  CHECK(start.error().message().find("[model]") != std::string::npos);
  CHECK(start.error().message().find("start.ckpt") != std::string::npos);
  CHECK_FALSE(open_start((folder.path() / "none").string(), layout_of(small_config(), 2), {}).ok());
}

}  // namespace starling::peer
