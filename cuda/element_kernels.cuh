// Kernels that take each element, or each pair of a rotation, once: conversion, gathering of
// embeddings, rotary positions, SwiGLU. One thread takes kCount elements next to each other: 8
// where rows allow 16 bytes at a time, else 1.
#pragma once

#include "cuda/kernel_support.cuh"

namespace starling::cuda {

inline constexpr unsigned kElementThreads = 256;

struct Elements {
  std::int64_t rows, columns;  // columns: a multiple of kCount
};
struct PackIndex {
  std::int64_t row, column;
};
// Whether this thread has a pack, and which.
template <int kCount>
__device__ __forceinline__ bool find_pack(const Elements& of, PackIndex& at) {
  const std::int64_t packs = of.columns / kCount;
  const std::int64_t pack = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  at = {pack / packs, pack % packs * kCount};
  return at.row < of.rows;
}

// target = source, rounded
template <int kCount>
__global__ void __launch_bounds__(kElementThreads)
    convert_kernel(bf16* target, const float* source, Elements of) {
  PackIndex at;
  if (!find_pack<kCount>(of, at)) return;
  const std::int64_t first = at.row * of.columns + at.column;
  store_floats(target + first, load_floats<kCount>(source + first));
}

// out (rows, columns): row t is row tokens[t] of weight.
template <int kCount>
__global__ void __launch_bounds__(kElementThreads)
    embed_kernel(float* out, const float* weight, const std::int32_t* tokens, Elements of) {
  PackIndex at;
  if (!find_pack<kCount>(of, at)) return;
  const float* from = weight + tokens[at.row] * of.columns;
  store_floats(out + at.row * of.columns + at.column, load_floats<kCount>(from + at.column));
}

// The queries and keys of packed rows (model/layer_ops.h), turned in place.
struct Rope {
  std::int64_t tokens;  // of each sequence
  std::int64_t half;    // pairs of a head
  std::int64_t packed_width;
  const float *cosines, *sines;  // (tokens, half)
};

// An element is a pair (i, i + half); a row is those of a token.
template <int kCount, class T>
__global__ void __launch_bounds__(kElementThreads) rope_kernel(T* qkv, Rope rope, Elements of) {
  PackIndex at;
  if (!find_pack<kCount>(of, at)) return;
  const std::int64_t head = at.column / rope.half, pair = at.column % rope.half;
  T* first_at = qkv + at.row * rope.packed_width + head * 2 * rope.half + pair;
  const std::int64_t angle = at.row % rope.tokens * rope.half + pair;
  const auto cosines = load_floats<kCount>(rope.cosines + angle);
  const auto sines = load_floats<kCount>(rope.sines + angle);
  auto first = load_floats<kCount>(first_at), second = load_floats<kCount>(first_at + rope.half);
  STARLING_UNROLL
  for (int i = 0; i < kCount; ++i) {
    const float cosine = cosines.values[i], sine = sines.values[i];
    const float x = first.values[i], y = second.values[i];
    first.values[i] = x * cosine - y * sine;
    second.values[i] = y * cosine + x * sine;
  }
  store_floats(first_at, first);
  store_floats(first_at + rope.half, second);
}

__device__ __forceinline__ float sigmoid(float value) { return 1.0F / (1.0F + expf(-value)); }

// gated (rows, columns) = silu(gate) * up; a row of gate_up holds `columns` gates, then the ups.
template <int kCount, class T>
__global__ void __launch_bounds__(kElementThreads)
    swiglu_kernel(T* gated, const T* gate_up, Elements of) {
  PackIndex at;
  if (!find_pack<kCount>(of, at)) return;
  const T* gate_at = gate_up + at.row * 2 * of.columns + at.column;
  const auto gate = load_floats<kCount>(gate_at), up = load_floats<kCount>(gate_at + of.columns);
  Pack<float, kCount> out;
  STARLING_UNROLL
  for (int i = 0; i < kCount; ++i) {
    out.values[i] = gate.values[i] * sigmoid(gate.values[i]) * up.values[i];
  }
  store_floats(gated + at.row * of.columns + at.column, out);
}

// Before: `gated` holds its gradient. After: what the forward gave.
template <int kCount, class T>
__global__ void __launch_bounds__(kElementThreads)
    swiglu_backward_kernel(T* gate_up_grad, T* gated, const T* gate_up, Elements of) {
  PackIndex at;
  if (!find_pack<kCount>(of, at)) return;
  const std::int64_t gate_at = at.row * 2 * of.columns + at.column, up_at = gate_at + of.columns;
  T* gated_at = gated + at.row * of.columns + at.column;
  const auto gate = load_floats<kCount>(gate_up + gate_at);
  const auto up = load_floats<kCount>(gate_up + up_at);
  auto out = load_floats<kCount>(gated_at);
  Pack<float, kCount> gate_grad, up_grad;
  STARLING_UNROLL
  for (int i = 0; i < kCount; ++i) {
    const float z = gate.values[i], gradient = out.values[i], s = sigmoid(z);
    gate_grad.values[i] = gradient * up.values[i] * s * (1.0F + z * (1.0F - s));
    up_grad.values[i] = gradient * z * s;
    out.values[i] = z * s * up.values[i];
  }
  store_floats(gate_up_grad + gate_at, gate_grad);
  store_floats(gate_up_grad + up_at, up_grad);
  store_floats(gated_at, out);
}

}  // namespace starling::cuda
