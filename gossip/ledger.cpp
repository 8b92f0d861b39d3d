#include "gossip/ledger.h"

#include <algorithm>

#include "base/assert.h"

namespace starling::gossip {

Ledger::Ledger(std::span<const LedgerRow> restored) {
  for (const LedgerRow& row : restored) {
    // A row twice in a checkpoint says nothing new.
    if (!record(row)) continue;
  }
  const auto kept = std::count_if(rows_.begin(), rows_.end(), [](const auto& entry) {
    return entry.second.role == Role::kResponder;
  });
  // Once full, no ledger has fewer: only initiator rows are forgotten.
  if (static_cast<std::size_t>(kept) >= kRowsMax - kInitiatorRowsMax) assume_forgotten();
}

void Ledger::assume_forgotten() {
  for (const auto& [sequence, row] : rows_) {
    if (row.role != Role::kResponder) continue;
    const auto& [initiator, responder, counter] = row.ref.exchange;
    forgotten_before_ = std::max(forgotten_before_, responder.incarnation + 1);
    if (marks_.size() < kMarksMax) {
      marks_.try_emplace(initiator.id, std::pair{initiator.incarnation, counter});
    }
  }
}

bool Ledger::record(const LedgerRow& row) {
  if (contains(row)) return false;
  if (rows_.size() >= kRowsMax && !make_room()) return false;
  const std::uint64_t sequence = next_sequence_++;
  rows_.emplace(sequence, row);
  sequences_.emplace(Key{row.role, row.ref}, sequence);
  return true;
}

void Ledger::forget(const LedgerRow& row) {
  const auto found = sequences_.find(Key{row.role, row.ref});
  if (found == sequences_.end()) return;
  rows_.erase(found->second);
  sequences_.erase(found);
}

bool Ledger::contains(const LedgerRow& row) const {
  return sequences_.count(Key{row.role, row.ref}) != 0;
}

bool Ledger::may_have_forgotten(const StripeRef& ref) const {
  const auto& [initiator, responder, counter] = ref.exchange;
  const auto mark = marks_.find(initiator.id);
  if (mark == marks_.end() || mark->second.first < initiator.incarnation) {
    return marks_dropped_ || responder.incarnation < forgotten_before_;
  }
  return std::pair{initiator.incarnation, counter} <= mark->second;
}

std::vector<LedgerRow> Ledger::rows() const {
  std::vector<LedgerRow> all;
  all.reserve(rows_.size());
  for (const auto& [sequence, row] : rows_) all.push_back(row);
  return all;
}

bool Ledger::make_room() {
  const auto oldest = std::find_if(rows_.begin(), rows_.end(), [](const auto& entry) {
    return entry.second.role == Role::kResponder;
  });
  if (oldest == rows_.end()) return false;
  const LedgerRow row = oldest->second;
  const PeerKey& initiator = row.ref.exchange.initiator;
  if (marks_.size() >= kMarksMax && marks_.count(initiator.id) == 0) {
    marks_.erase(marks_.begin());
    marks_dropped_ = true;
  }
  auto& mark = marks_[initiator.id];
  mark = std::max(mark, std::pair{initiator.incarnation, row.ref.exchange.counter});
  forget(row);
  return true;
}

}  // namespace starling::gossip
