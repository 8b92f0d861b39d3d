// EncodeCrew: several threads that turn pieces of documents into tokens, in the order in which the
// pieces were given, whatever the threads do. One owner; its threads live only inside encode().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/tokenizers/tokenizer.h"

namespace starling::peer {

// Bytes that are no UTF-8.
struct InvalidBytes {
  std::uint64_t count = 0;
  std::optional<std::uint64_t> first{};  // its offset in the file; of JSON lines, of its line
};

struct EncodeTask {
  struct Part {
    std::string text;
    bool begins = false, ends = false;  // the document
    bool follows = false;               // on another document
    std::uint64_t offset = 0;           // in its file
  };
  std::vector<Part> parts;
  std::size_t bytes = 0;  // of all texts
  std::size_t file = 0;   // that all are of
  bool held_out = false;  // all are, or none

  std::vector<std::int32_t> tokens;  // the answer, with what the tokenizer has around documents
  InvalidBytes invalid;              // the answer; not counted where every byte is a token
};

class EncodeCrew {
 public:
  // `tokenizer` must outlive the crew.
  EncodeCrew(const model::Tokenizer& tokenizer, std::size_t threads);

  std::size_t threads() const noexcept { return encoders_.size(); }
  // At most one task for each thread.
  void encode(std::span<EncodeTask> tasks);

 private:
  void encode_one(EncodeTask& task, model::TokenEncoder& encoder) const;

  const model::Tokenizer* tokenizer_;  // never null
  std::vector<std::unique_ptr<model::TokenEncoder>> encoders_;
};

}  // namespace starling::peer
