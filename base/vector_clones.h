// STARLING_VECTOR_CLONES compiles a function for several vector widths and picks one at start, so
// that one binary is fast on every x86 machine. STARLING_INLINE is for what such a function calls:
// it is compiled anew for each of them. A cloned function cannot be a template; its body may call
// one.
//
// The clones compute the same bits where the compiler fuses no multiply with an add
// (-ffp-contract=off, which is how everything but the loops of model/ is compiled) and reorders no
// sum.
//
// STARLING_ONE_CLONE: only what the compiler's options say, for tests of a clone that this machine
// does not choose. Sanitizers instrument the resolver, which runs before they are ready, and clang
// 14 does not clone functions in every place that GCC does: they get the plain code.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(STARLING_ONE_CLONE)
#define STARLING_VECTOR_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define STARLING_VECTOR_CLONES
#endif

#define STARLING_INLINE inline __attribute__((always_inline))
