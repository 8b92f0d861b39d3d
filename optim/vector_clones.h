// STARLING_VECTOR_CLONES compiles a function for several vector widths and picks one at start, so
// that one binary is fast on every x86 machine. All clones compute the same bits: no fused
// multiply-add (-ffp-contract=off), and no sum is reordered by the compiler.
//
// STARLING_ONE_CLONE: only what the compiler's options say, for tests of a clone that this machine
// does not choose. Sanitizers instrument the resolver, which runs before they are ready; they get
// the plain code.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(STARLING_ONE_CLONE)
#define STARLING_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define STARLING_VECTOR_CLONES
#endif
