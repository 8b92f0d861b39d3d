#include "gossip/net/name_resolver.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/host.h"
#include "base/log.h"
#include "base/this_thread.h"

namespace starling::gossip {
namespace {

// Room for kAddressesMax literals with zones. What is longer arrives cut.
constexpr std::size_t kAnswerBytesMax = 1024;
// In front of a problem. Nothing like it is in an address.
constexpr char kProblemMark = '!';

// One address a line; what could not be dialled is left out.
std::string to_text(const NameAnswer& answer) {
  std::string text;
  std::size_t count = 0;
  for (const std::string& address : answer.addresses) {
    if (!is_ip_literal(address) || count == NameResolver::kAddressesMax) continue;
    text += address + '\n';
    ++count;
  }
  if (count > 0) return text;
  return kProblemMark + (answer.problem.empty() ? "it has no address" : answer.problem);
}

NameAnswer from_text(std::string_view text) {
  if (text.empty()) return {{}, "the look-up ended without an answer"};
  if (text.front() == kProblemMark) return {{}, std::string(text.substr(1))};
  NameAnswer answer;
  for (std::size_t end = text.find('\n'); end != text.npos; end = text.find('\n')) {
    answer.addresses.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return answer;
}

// A thread's whole life. NOSIGNAL: nobody may be interested any more.
void look_up_and_tell(const LookUp& look_up, const std::string& name, int answer) {
  name_this_thread("names");
  std::string text;
  try {
    text = to_text(look_up(name));
  } catch (const std::exception& error) {
    text = to_text({{}, error.what()});
  }
  text.resize(std::min(text.size(), kAnswerBytesMax));
  static_cast<void>(::send(answer, text.data(), text.size(), MSG_NOSIGNAL));
  ::close(answer);
}

// The answer, once it is there; empty text: there will be none.
std::optional<std::string> try_read(int descriptor) {
  std::array<char, kAnswerBytesMax> bytes{};
  const auto count = ::recv(descriptor, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  return std::string(bytes.data(), count < 0 ? 0 : static_cast<std::size_t>(count));
}

}  // namespace

NameAnswer look_up_name(const std::string& name) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(name.c_str(), nullptr, &wanted, &found);
  if (failure == EAI_SYSTEM) return {{}, std::strerror(errno)};
  if (failure != 0) return {{}, ::gai_strerror(failure)};
  NameAnswer answer;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
      std::array<char, NI_MAXHOST> text{};
      if (one->ai_family != family) continue;
      if (::getnameinfo(one->ai_addr, one->ai_addrlen, text.data(), text.size(), nullptr, 0,
                        NI_NUMERICHOST) == 0) {
        answer.addresses.emplace_back(text.data());
      }
    }
  }
  ::freeaddrinfo(found);
  return answer;
}

NameResolver::~NameResolver() {
  for (const Work& work : works_) ::close(work.answer);
}

std::span<const std::string> NameResolver::addresses(Instant now, const std::string& name) {
  take_answers(now);
  Name* entry = find_or_add(now, name);
  if (entry == nullptr) return {};
  entry->asked = now;
  const std::size_t at_work_max = entry->reached ? kAtWorkMax : kAtWorkMax - kForReached;
  if (!entry->under_way && now >= entry->next_look && works_.size() < at_work_max) {
    begin(now, name, *entry);
  }
  return entry->addresses;
}

void NameResolver::give_up(const std::string& name, const std::string& address) {
  const auto entry = names_.find(name);
  if (entry == names_.end()) return;
  std::vector<std::string>& addresses = entry->second.addresses;
  const auto place = std::find(addresses.begin(), addresses.end(), address);
  if (place != addresses.end()) std::rotate(place, place + 1, addresses.end());
}

void NameResolver::note_reached(Instant now, const std::string& name) {
  const auto entry = names_.find(name);
  if (entry == names_.end()) return;
  entry->second.reached = true;
  entry->second.pause = kPauseMin;
  entry->second.next_look = now + kPauseMin;
}

NameResolver::Name* NameResolver::find_or_add(Instant now, const std::string& name) {
  if (const auto known = names_.find(name); known != names_.end()) return &known->second;
  if (names_.size() == kNamesMax) {
    const auto oldest =
        std::min_element(names_.begin(), names_.end(), [](const auto& left, const auto& right) {
          return std::pair(left.second.under_way, left.second.asked) <
                 std::pair(right.second.under_way, right.second.asked);
        });
    if (oldest->second.under_way) return nullptr;
    names_.erase(oldest);
  }
  Name& made = names_[name];
  made.next_look = now;
  return &made;
}

void NameResolver::begin(Instant now, const std::string& name, Name& entry) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return settle(now, name, {{}, std::strerror(errno)});
  }
  try {
    std::thread(look_up_and_tell, look_up_, name, ends[1]).detach();
  } catch (const std::system_error& error) {  // no more threads
    ::close(ends[0]);
    ::close(ends[1]);
    return settle(now, name, {{}, error.what()});
  }
  entry.under_way = true;
  works_.push_back({name, ends[0]});
}

void NameResolver::take_answers(Instant now) {
  for (std::size_t i = works_.size(); i-- > 0;) {
    const auto text = try_read(works_[i].answer);
    if (!text) continue;
    ::close(works_[i].answer);
    const std::string name = std::move(works_[i].name);
    works_.erase(works_.begin() + static_cast<std::ptrdiff_t>(i));
    settle(now, name, from_text(*text));
  }
}

// The pause begins when the answer is there: names whose server is silent leave others their turn.
void NameResolver::settle(Instant now, const std::string& name, NameAnswer answer) {
  Name& entry = names_.at(name);
  entry.under_way = false;
  entry.next_look = now + entry.pause;
  entry.pause = std::min(2 * entry.pause, kPauseMax);
  tell(name, entry, answer);
  entry.problem = std::move(answer.problem);
  if (answer.addresses.empty()) return;
  // Servers give the same addresses in another order each time; what was given up stays behind.
  if (!std::is_permutation(answer.addresses.begin(), answer.addresses.end(),
                           entry.addresses.begin(), entry.addresses.end())) {
    entry.addresses = std::move(answer.addresses);
  }
}

void NameResolver::tell(const std::string& name, const Name& before, const NameAnswer& answer) {
  if (answer.addresses.empty() && answer.problem != before.problem) {
    ++problems_told_;
    log_warning("the host name {} does not resolve: {}; it is looked up again{}", name,
                answer.problem, before.addresses.empty() ? "" : ", its last address stays in use");
  } else if (!answer.addresses.empty() && !before.problem.empty()) {
    log_info("the host name {} resolves again", name);
  }
}

}  // namespace starling::gossip
