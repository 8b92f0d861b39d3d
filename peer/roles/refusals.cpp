#include "peer/roles/refusals.h"

namespace starling::peer {

std::string_view remedy_of(gossip::RefuseReason reason, bool by_us) {
  using gossip::RefuseReason;
  switch (reason) {
    case RefuseReason::kProtocol: return "the older starling of the two has to be updated";
    case RefuseReason::kRun: return "run.name, run.seed and run.start must be the same";
    case RefuseReason::kModel: return "[model] and the tokenizer of data.train must be the same";
    case RefuseReason::kLayout: return "[model] and outer.fragments must be the same";
    case RefuseReason::kSelf:
      return "each peer needs its own trust.key, so its own run.peer_name: on a copied machine, "
             "stop it and give it another one ('starling keygen FILE')";
    case RefuseReason::kNotAllowed:
      return by_us ? "if it may take part, add its key to the file that trust.allow names"
                   : "this peer's key has to be in the file that trust.allow names there";
    case RefuseReason::kSecret: return "the files that trust.secret names must hold the same";
  }
  return "see the other's log";
}

}  // namespace starling::peer
