// NameResolver: the addresses of host names, for lines to dial (link_line.h). Whoever asks the
// system waits, for ten seconds and more where a name server is silent. So each look-up has a
// thread of its own that shares nothing with anybody: it has copies of the function and the name,
// writes one message into a socket, and ends. Whichever side goes first closes its end of that, and
// nobody ever waits for a look-up, at the end of the process neither. At most kAtWorkMax are under
// way; the last kForReached of these are for names by which a line has reached somebody, as any
// other may be invented. One more is begun when it is asked for again and there is room.
//
// A name is looked up when somebody asks for its addresses, which lines do while they are not up,
// and again after a pause: a machine's address may change. The pause doubles from kPauseMin to
// kPauseMax until a line is up. While look-ups fail the addresses found last are given. Why one
// failed is told to the operator when the reason is new, and that it is over.
//
// At most kNamesMax names are known; the one that nobody asked for longest is forgotten. No clock:
// `now` is an argument. Thread: one owner. The look-up is called on others, and may go on when the
// resolver is gone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"

namespace starling::gossip {

struct NameAnswer {
  std::vector<std::string> addresses;  // IP literals, those to be tried first in front
  std::string problem;                 // why there are none
};
using LookUp = std::function<NameAnswer(const std::string& name)>;

// Asks the system; blocks. IPv4 in front: most peers listen on that alone.
NameAnswer look_up_name(const std::string& name);

class NameResolver {
 public:
  static constexpr std::size_t kAtWorkMax = 8;
  static constexpr std::size_t kForReached = 2;  // of those
  static constexpr std::size_t kNamesMax = 2048;
  static constexpr std::size_t kAddressesMax = 8;  // of one name; further ones are not tried
  static constexpr Duration kPauseMin = std::chrono::seconds(1);
  static constexpr Duration kPauseMax = std::chrono::seconds(60);

  explicit NameResolver(LookUp look_up = look_up_name) : look_up_(std::move(look_up)) {}
  ~NameResolver();
  NameResolver(const NameResolver&) = delete;
  NameResolver& operator=(const NameResolver&) = delete;

  // In the order to try them; none: not known yet. Valid until the next call.
  std::span<const std::string> addresses(Instant now, const std::string& name);
  // It was dialled in vain: the others go first.
  void give_up(const std::string& name, const std::string& address);
  // A line that dialled it is up.
  void note_reached(Instant now, const std::string& name);

  std::size_t known() const { return names_.size(); }
  std::size_t at_work() const { return works_.size(); }
  std::uint64_t problems_told() const { return problems_told_; }

 private:
  struct Name {
    std::vector<std::string> addresses;
    std::string problem;  // of the last look-up; empty: none
    bool under_way = false;
    bool reached = false;  // by a line, once
    Duration pause = kPauseMin;
    Instant next_look;  // not before
    Instant asked;
  };
  struct Work {
    std::string name;
    int answer = -1;  // descriptor
  };
  Name* find_or_add(Instant now, const std::string& name);  // null: no room
  void begin(Instant now, const std::string& name, Name& entry);
  void take_answers(Instant now);
  void settle(Instant now, const std::string& name, NameAnswer answer);
  void tell(const std::string& name, const Name& before, const NameAnswer& answer);

  const LookUp look_up_;
  std::map<std::string, Name> names_;
  std::vector<Work> works_;
  std::uint64_t problems_told_ = 0;
};

}  // namespace starling::gossip
