// delay_link HOSTS SEED: an internet of up to 64 hosts inside one process, for tests as root.
//
// Every host is a network namespace with one TUN device, 10.99.0.(i+1), and this process carries
// the IP packets between them, so the kernel's own TCP reacts to all of it: delay, rate with a
// bounded queue, loss, damage and cuts. One mechanism for everything: with delay, every packet has
// to come through user space anyway (the kernels of many hosts have no netem), and the rest is then
// a comparison each. Namespaces and devices belong to this process and vanish with it, however it
// ends; nothing of the machine's own network is touched.
//
// Prints one line `host I PATH ADDRESS` per host, where `nsenter --net=PATH` enters it, and
// `ready`. Then standard input says how a host is linked, at any time, and its end is our end:
//
//   host I DELAY_MS MBIT LOSS DAMAGE BLOCKED CLOSED
//
// DELAY_MS from the host to the middle: two hosts are both their delays apart, one way. MBIT each
// way. LOSS and DAMAGE are probabilities per packet, at either end. BLOCKED, in hexadecimal: a bit
// for each host that packets from this one do not reach. CLOSED, 1 or 0: the host can call and not
// be called, as behind a NAT or a firewall: packets that open a TCP connection to it vanish.
//
// A damaged packet has two 16-bit words of its TCP payload swapped, which TCP's checksum does not
// see: the damage arrives.
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/rng.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kHostsMax = 64;
constexpr std::size_t kPacketBytes = 1500;
constexpr double kQueueSeconds = 0.1;         // a router's queue, at the link's rate
constexpr double kQueueBytesMin = 64 * 1024;  // and at least so much
constexpr std::uint64_t kInput = kHostsMax;   // standard input among the descriptors

void must(bool good, const std::string& what) {
  if (!good) throw std::runtime_error(what + ": " + std::strerror(errno));
}

double seconds() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

struct Host {
  int device = -1;
  double delay = 0, bytes_per_second = 1e9 / 8, loss = 0, damage = 0;
  std::uint64_t blocked = 0;
  bool closed = false;
  double sends_until = 0, takes_until = 0;  // when its uplink and its downlink are free again
};

struct Packet {
  double due;
  std::uint64_t sequence;
  std::size_t to;
  bool on_downlink;  // the last stretch: then it is delivered
  std::vector<std::uint8_t> bytes;
};
bool later(const Packet& a, const Packet& b) {
  return a.due != b.due ? a.due > b.due : a.sequence > b.sequence;
}

// Where the TCP header begins; 0: there is none.
std::size_t tcp_at(const std::vector<std::uint8_t>& bytes) {
  const std::size_t ip = static_cast<std::size_t>(bytes[0] & 15U) * 4;
  return bytes[9] == IPPROTO_TCP && bytes.size() >= ip + 20 ? ip : 0;
}

bool opens_connection(const std::vector<std::uint8_t>& bytes) {
  constexpr unsigned kSyn = 2, kAck = 16;
  const std::size_t tcp = tcp_at(bytes);
  return tcp != 0 && (bytes[tcp + 13] & (kSyn | kAck)) == kSyn;
}

void with_interface(int socket, const char* name, bool addressed, std::size_t index) {
  ifreq request{};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  if (addressed) {
    auto* address = reinterpret_cast<sockaddr_in*>(&request.ifr_addr);
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(0x0A630000U + static_cast<std::uint32_t>(index) + 1);
    must(ioctl(socket, SIOCSIFADDR, &request) == 0, "SIOCSIFADDR");
    address->sin_addr.s_addr = htonl(0xFFFFFF00U);
    must(ioctl(socket, SIOCSIFNETMASK, &request) == 0, "SIOCSIFNETMASK");
    request.ifr_mtu = kPacketBytes;
    must(ioctl(socket, SIOCSIFMTU, &request) == 0, "SIOCSIFMTU");
  }
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  must(ioctl(socket, SIOCSIFFLAGS, &request) == 0, "SIOCSIFFLAGS");
}

// Leaves this process in the new namespace; the next call leaves it again.
int make_host(std::size_t index) {
  must(unshare(CLONE_NEWNET) == 0, "a network namespace");
  const int space = ::open("/proc/self/ns/net", O_RDONLY);
  must(space >= 0, "/proc/self/ns/net");
  const int device = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK);
  must(device >= 0, "/dev/net/tun");
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  std::strncpy(request.ifr_name, "wan", IFNAMSIZ - 1);
  must(ioctl(device, TUNSETIFF, &request) == 0, "TUNSETIFF");
  const int socket = ::socket(AF_INET, SOCK_DGRAM, 0);
  must(socket >= 0, "a socket");
  with_interface(socket, "wan", true, index);
  with_interface(socket, "lo", false, index);
  ::close(socket);
  std::printf("host %zu /proc/%d/fd/%d 10.99.0.%zu\n", index, ::getpid(), space, index + 1);
  return device;
}

class Network {
 public:
  Network(std::size_t hosts, std::uint64_t seed) : hosts_(hosts), rng_(seed) {
    poll_ = epoll_create1(0);
    must(poll_ >= 0, "epoll");
    for (std::size_t i = 0; i < hosts; ++i) {
      hosts_[i].device = make_host(i);
      watch(hosts_[i].device, i);
    }
    watch(STDIN_FILENO, kInput);
    std::puts("ready");
    std::fflush(stdout);
  }

  void run() {
    while (!ended_) {
      wait();
      const double now = seconds();
      while (!ready_.empty()) {
        const std::uint64_t which = ready_.back();
        ready_.pop_back();
        if (which == kInput) {
          obey();
        } else {
          carry_from(which, now);
        }
      }
      deliver(seconds());
    }
  }

  void report() const {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto used = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    std::printf("{\"carried\": %" PRIu64 ", \"lost\": %" PRIu64 ", \"over_queue\": %" PRIu64
                ", \"blocked\": %" PRIu64 ", \"damaged\": %" PRIu64
                ", \"calls_not_let_in\": %" PRIu64 ", \"cpu_seconds\": %.2f}\n",
                carried_, lost_, over_queue_, blocked_, damaged_, not_let_in_,
                used(usage.ru_utime) + used(usage.ru_stime));
  }

 private:
  void watch(int descriptor, std::uint64_t which) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = which;
    must(epoll_ctl(poll_, EPOLL_CTL_ADD, descriptor, &event) == 0, "epoll_ctl");
  }

  void wait() {
    timespec time{};
    const timespec* limit = nullptr;
    if (!line_.empty()) {
      const double left = std::max(0.0, line_.front().due - seconds());
      time.tv_sec = static_cast<time_t>(left);
      time.tv_nsec = static_cast<long>((left - static_cast<double>(time.tv_sec)) * 1e9);
      limit = &time;
    }
    epoll_event events[32];
    const int found = epoll_pwait2(poll_, events, 32, limit, nullptr);
    must(found >= 0 || errno == EINTR, "epoll_pwait2");
    for (int i = 0; i < found; ++i) ready_.push_back(events[i].data.u64);
  }

  void obey() {
    char buffer[4096];
    const ssize_t got = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (got <= 0) {
      ended_ = true;
      return;
    }
    input_.append(buffer, static_cast<std::size_t>(got));
    for (std::size_t end; (end = input_.find('\n')) != std::string::npos;) {
      const std::string line = input_.substr(0, end);
      input_.erase(0, end + 1);
      std::size_t index = 0;
      double delay = 0, mbit = 0, loss = 0, damage = 0;
      std::uint64_t blocked = 0;
      int closed = 0;
      const int fields = std::sscanf(line.c_str(), "host %zu %lf %lf %lf %lf %" SCNx64 " %d",
                                     &index, &delay, &mbit, &loss, &damage, &blocked, &closed);
      if (fields != 7 || index >= hosts_.size() || delay < 0 || mbit <= 0) {
        throw std::runtime_error("not understood: " + line);
      }
      Host& host = hosts_[index];
      host.delay = delay * 1e-3;
      host.bytes_per_second = mbit * 1e6 / 8;
      host.loss = loss;
      host.damage = damage;
      host.blocked = blocked;
      host.closed = closed != 0;
      host.sends_until = std::min(host.sends_until, seconds());  // the old rate's queue is gone
      host.takes_until = std::min(host.takes_until, seconds());
    }
  }

  void carry_from(std::size_t from, double now) {
    std::uint8_t buffer[kPacketBytes];
    for (int burst = 0; burst < 64; ++burst) {
      const ssize_t got = ::read(hosts_[from].device, buffer, sizeof buffer);
      if (got < 20) return;  // nothing more, or no packet
      if (buffer[0] >> 4 != 4 || buffer[16] != 10 || buffer[17] != 99 || buffer[18] != 0) continue;
      const std::size_t to = static_cast<std::size_t>(buffer[19]) - 1;
      if (to >= hosts_.size()) continue;
      send(from, now, {now, 0, to, false, {buffer, buffer + got}});
    }
  }

  void send(std::size_t from, double now, Packet packet) {
    Host& source = hosts_[from];
    const Host& target = hosts_[packet.to];
    if (source.blocked >> packet.to & 1U) {
      ++blocked_;
      return;
    }
    if (target.closed && opens_connection(packet.bytes)) {
      ++not_let_in_;
      return;
    }
    if (!queue(source.sends_until, source.bytes_per_second, now, packet)) return;
    if (rng_.chance(source.loss) || rng_.chance(target.loss)) {
      ++lost_;
      return;
    }
    if (rng_.chance(source.damage) || rng_.chance(target.damage)) damage(packet.bytes);
    packet.due += source.delay + target.delay;
    push(std::move(packet));
  }

  // Sets the time when the packet has left a link that is busy `until`; false if it finds no room.
  bool queue(double& until, double bytes_per_second, double now, Packet& packet) {
    const double start = std::max(now, until);
    const double room = std::max(kQueueBytesMin, kQueueSeconds * bytes_per_second);
    if ((start - now) * bytes_per_second > room) {
      ++over_queue_;
      return false;
    }
    until = start + static_cast<double>(packet.bytes.size()) / bytes_per_second;
    packet.due = until;
    return true;
  }

  void damage(std::vector<std::uint8_t>& bytes) {
    const std::size_t tcp = tcp_at(bytes);
    if (tcp == 0) return;
    const std::size_t first = tcp + static_cast<std::size_t>(bytes[tcp + 12] >> 4) * 4;
    if (bytes.size() < first + 4) return;  // carries nothing
    const std::size_t words = (bytes.size() - first) / 2;
    std::uint8_t* one = &bytes[first + 2 * rng_.below(words)];
    std::uint8_t* other = &bytes[first + 2 * rng_.below(words)];
    if (std::equal(one, one + 2, other)) return;
    std::swap_ranges(one, one + 2, other);
    ++damaged_;
  }

  void push(Packet packet) {
    packet.sequence = ++sequence_;
    line_.push_back(std::move(packet));
    std::push_heap(line_.begin(), line_.end(), later);
  }

  void deliver(double now) {
    while (!line_.empty() && line_.front().due <= now) {
      std::pop_heap(line_.begin(), line_.end(), later);
      Packet packet = std::move(line_.back());
      line_.pop_back();
      Host& target = hosts_[packet.to];
      if (!packet.on_downlink) {
        packet.on_downlink = true;
        const double arrived = packet.due;
        if (queue(target.takes_until, target.bytes_per_second, arrived, packet)) {
          push(std::move(packet));
        }
        continue;
      }
      // A full device queue loses the packet, as any router may.
      const ssize_t put = ::write(target.device, packet.bytes.data(), packet.bytes.size());
      (put < 0 ? over_queue_ : carried_) += 1;
    }
  }

  std::vector<Host> hosts_;
  starling::Rng rng_;
  int poll_ = -1;
  bool ended_ = false;
  std::string input_;
  std::vector<std::uint64_t> ready_;
  std::vector<Packet> line_;  // a heap
  std::uint64_t sequence_ = 0;
  std::uint64_t carried_ = 0, lost_ = 0, over_queue_ = 0, blocked_ = 0, damaged_ = 0;
  std::uint64_t not_let_in_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const unsigned long hosts = argc == 3 ? std::strtoul(argv[1], nullptr, 10) : 0;
  if (hosts == 0 || hosts > kHostsMax) {
    std::fputs("usage: delay_link HOSTS SEED (at most 64 hosts)\n", stderr);
    return 2;
  }
  try {
    Network network(hosts, std::strtoull(argv[2], nullptr, 10));
    network.run();
    network.report();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "delay_link: %s\n", error.what());
    return 1;
  }
  return 0;
}
