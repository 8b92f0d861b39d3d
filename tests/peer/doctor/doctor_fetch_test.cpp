#include "peer/doctor/doctor_fetch.h"

#include <doctest/doctest.h>

#include <vector>

namespace starling::peer {

TEST_CASE("pieces are counted by donor from the second on, and taken for stored afterwards") {
  constexpr PeerId kDonor{7};
  boost::asio::io_context io;
  std::vector<gossip::StateInput> answers;
  FetchMeter meter(io, [&](const gossip::StateInput& input) { answers.push_back(input); });
  const std::vector<std::byte> piece(1000);
  for (std::uint32_t i = 0; i < 3; ++i) {
    meter.submit(gossip::StorePiece{kDonor, 1, i, {}}, Bytes::copy_of(piece));
  }
  CHECK(answers.empty());  // never before submit() returns
  CHECK(meter.bytes() == 3000);
  CHECK(meter.from(kDonor).bytes == 2000);
  CHECK(meter.from(PeerId{8}).bytes == 0);
  io.run();
  REQUIRE(answers.size() == 3);
  const auto* stored = std::get_if<gossip::PieceStoredDone>(&answers[2]);
  REQUIRE(stored != nullptr);
  CHECK(stored->order.piece == 2);
  CHECK(stored->outcome == gossip::PieceStored::kStored);
}

TEST_CASE("it has nothing to give, and what it was given passes for right") {
  boost::asio::io_context io;
  std::vector<gossip::StateInput> answers;
  FetchMeter meter(io, [&](const gossip::StateInput& input) { answers.push_back(input); });
  meter.submit(gossip::PrepareSnapshot{}, {});
  meter.submit(gossip::ReadPiece{PeerId{7}, 1, 0}, {});
  meter.submit(gossip::ForgetPieces{}, {});
  meter.submit(gossip::CheckState{}, {});
  io.run();
  REQUIRE(answers.size() == 3);
  CHECK(!std::get<gossip::SnapshotReady>(answers[0]).offer);
  CHECK(std::get<gossip::PieceReadDone>(answers[1]).outcome == gossip::PieceRead::kFailed);
  CHECK(std::get<gossip::StateChecked>(answers[2]).good);
}

}  // namespace starling::peer
