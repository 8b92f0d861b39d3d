#include "peer/models/coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "peer/files/checkpoint_parts.h"
#include "peer/files/checkpoint_store.h"
#include "peer/files/run_folder.h"
#include "peer/models/distinct_peers.h"

namespace starling::peer {

namespace {

namespace fs = std::filesystem;

// `owners`: gets whose it is.
Result<ReadPosition> position_in(const fs::path& peer, std::vector<PeerFile>& owners) {
  auto file = open_checkpoint(peer);
  if (!file.ok()) return std::move(file).error();
  owners.push_back({peer, file.value().header().peer});
  auto position = read_data(file.value());
  if (!position.ok()) return std::move(position).error().with_context(peer.string());
  const fs::path name = peer.has_filename() ? peer.filename() : peer.parent_path().filename();
  return ReadPosition{name.string(), std::move(position).value()};
}

}  // namespace

std::vector<Coverage> coverage_of(std::span<const ReadPosition> readers) {
  struct Sums {
    Coverage coverage;
    std::vector<std::uint64_t> heard, read;  // by part
  };
  // Of another division of the same data, too: only parts of one kind can be compared.
  std::map<std::pair<std::uint64_t, std::size_t>, Sums> spaces;
  for (const auto& [name, position] : readers) {
    const std::size_t parts = position.passes.size();
    Sums& sums = spaces[{position.space, parts}];
    sums.heard.resize(parts);
    sums.read.resize(parts);
    for (std::size_t part = 0; part < parts; ++part) {
      sums.heard[part] = std::max<std::uint64_t>(sums.heard[part], position.passes[part]);
      sums.read[part] += position.own_passes[part];
    }
    const auto finished =
        std::accumulate(position.own_passes.begin(), position.own_passes.end(), std::uint64_t{0});
    sums.coverage.readers.push_back({name, finished});
  }
  std::vector<Coverage> all;
  for (auto& [key, sums] : spaces) {
    Coverage& coverage = sums.coverage;
    coverage.space = key.first;
    coverage.parts = key.second;
    for (std::size_t part = 0; part < coverage.parts; ++part) {
      const std::uint64_t times = std::max(sums.heard[part], sums.read[part]);
      coverage.least = part == 0 ? times : std::min(coverage.least, times);
      coverage.most = std::max(coverage.most, times);
      ++(times == 0 ? coverage.never : times == 1 ? coverage.once : coverage.more);
    }
    all.push_back(std::move(coverage));
  }
  return all;
}

Result<std::vector<Coverage>> coverage(std::span<const fs::path> folders) {
  std::vector<ReadPosition> readers;
  std::vector<PeerFile> owners;
  for (const fs::path& folder : folders) {
    for (const fs::path& peer : trained_peers_in(folder)) {
      auto position = position_in(peer, owners);
      if (!position.ok()) return std::move(position).error();
      readers.push_back(std::move(position).value());
    }
  }
  if (Status distinct = check_distinct(owners); !distinct.ok()) return std::move(distinct).error();
  return coverage_of(readers);
}

std::string coverage_text(std::span<const Coverage> all) {
  std::string text;
  for (const Coverage& data : all) {
    const auto share = [&data](std::uint64_t parts) {
      return 100.0 * static_cast<double>(parts) /
             static_cast<double>(std::max<std::uint64_t>(data.parts, 1));
    };
    text += fmt::format(
        "data {:016x} in {} parts: read never {:.1f}%, once {:.1f}%, more often {:.1f}%; "
        "{} to {} times\n",
        data.space, data.parts, share(data.never), share(data.once), share(data.more), data.least,
        data.most);
    for (const ReaderCoverage& reader : data.readers) {
      text += fmt::format("  {:<12} {:>6} parts, {:.1f}%\n", reader.name, reader.finished,
                          share(reader.finished));
    }
  }
  return text;
}

}  // namespace starling::peer
