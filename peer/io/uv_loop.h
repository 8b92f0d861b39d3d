// UvLoop and UvHandle: ownership for libuv. A handle is heap memory that libuv uses until its close
// callback; UvHandle's deleter asks for the close and frees it there, so an owner may drop a handle
// at any time and no callback reaches the owner afterwards. UvLoop's destructor runs the pending
// close callbacks; every UvHandle of a loop must be dropped before it, and no other handle may be
// left open. One thread.
#pragma once

#include <uv.h>

#include <memory>

#include "base/assert.h"

namespace starling::peer {

template <class T>
struct CloseUvHandle {
  void operator()(T* handle) const noexcept {
    uv_close(reinterpret_cast<uv_handle_t*>(handle),
             [](uv_handle_t* closed) { delete reinterpret_cast<T*>(closed); });
  }
};

// Only for handles that were initialised with a loop (uv_timer_init, uv_spawn, ...).
template <class T>
using UvHandle = std::unique_ptr<T, CloseUvHandle<T>>;

class UvLoop {
 public:
  UvLoop() { STARLING_ASSERT(uv_loop_init(&loop_) == 0); }
  ~UvLoop() {
    uv_run(&loop_, UV_RUN_DEFAULT);
    STARLING_ASSERT(uv_loop_close(&loop_) == 0);
  }
  UvLoop(const UvLoop&) = delete;
  UvLoop& operator=(const UvLoop&) = delete;

  uv_loop_t* get() noexcept { return &loop_; }

 private:
  uv_loop_t loop_;
};

}  // namespace starling::peer
