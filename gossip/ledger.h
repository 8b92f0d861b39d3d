// Ledger: which stripes are applied in the weights beside it. The mixer writes a row in the same
// breath as it changes the weights, and a checkpoint holds both from one cut; so after a restart a
// row says "applied" exactly if the restored weights contain the delta. Core starts from the
// restored rows and settles what was left open.
//
// Initiator rows live until the responder's answer (Committed: forgotten; Abandoned: undone and
// forgotten). Responder rows are kept to answer a repeated Commit; the oldest are dropped when
// kRowsMax is reached. When rows are dropped, a mark per initiator records up to which exchange;
// once marks had to be dropped too, assume of an initiator without one that rows may be missing.
// Checkpoints store rows but no marks: after restoring a ledger that may have been full, an
// initiator's oldest row serves as its mark; of an initiator without rows, anything about a former
// process of ours may be missing.
//
// Every operation is logarithmic. Thread: one owner. No sockets, no clock, no payloads.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "gossip/messages.h"

namespace starling::gossip {

enum class Role : std::uint8_t { kInitiator, kResponder };

struct LedgerRow {
  StripeRef ref;
  Role role = Role::kInitiator;
  friend bool operator==(const LedgerRow&, const LedgerRow&) = default;
};

class Ledger {
 public:
  static constexpr std::size_t kRowsMax = 8192;
  // Initiator keeps to it. With more, nobody could tell after a restart that rows had made room.
  static constexpr std::size_t kInitiatorRowsMax = kRowsMax / 2;

  Ledger() = default;
  explicit Ledger(std::span<const LedgerRow> restored);

  // False if this very attempt is already recorded for the role: applying again would be wrong.
  // False too if kRowsMax initiator rows wait for an answer: none of them may make room.
  [[nodiscard]] bool record(const LedgerRow& row);
  void forget(const LedgerRow& row);
  bool contains(const LedgerRow& row) const;
  // A responder row of this initiator and exchange, or of a later one, has made room, or may have:
  // whether the stripe was applied cannot be told any more.
  bool may_have_forgotten(const StripeRef& ref) const;
  std::vector<LedgerRow> rows() const;  // oldest first
  std::size_t size() const { return rows_.size(); }

 private:
  using Key = std::pair<Role, StripeRef>;
  static constexpr std::size_t kMarksMax = 1024;
  [[nodiscard]] bool make_room();
  void assume_forgotten();

  std::uint64_t next_sequence_ = 0;
  std::map<std::uint64_t, LedgerRow> rows_;                          // by age
  std::map<Key, std::uint64_t> sequences_;                           // the same rows by name
  std::map<PeerId, std::pair<std::uint64_t, std::uint64_t>> marks_;  // incarnation, counter
  bool marks_dropped_ = false;
  std::uint64_t forgotten_before_ = 0;  // this process of ours: others may have made room
};

}  // namespace starling::gossip
