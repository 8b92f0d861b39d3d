#include "peer/roles/pace_watch.h"

#include <doctest/doctest.h>

namespace starling::peer {

TEST_CASE("a peer's pace is told when it halves or doubles, and when nobody is ahead any more") {
  PaceWatch watch;
  CHECK_FALSE(watch.differs(1));
  CHECK_FALSE(watch.differs(0.6));
  CHECK(watch.differs(0.5));
  watch.told(0.5);
  CHECK_FALSE(watch.differs(0.5));
  CHECK_FALSE(watch.differs(0.3));
  CHECK(watch.differs(0.25));
  CHECK_FALSE(watch.differs(0.89));
  CHECK(watch.differs(0.95));
  watch.told(1.0 / 256);
  CHECK_FALSE(watch.differs(1.0 / 200));
  CHECK(watch.differs(1.0 / 128));
  watch.told(0.97);
  CHECK_FALSE(watch.differs(1));
}

}  // namespace starling::peer
