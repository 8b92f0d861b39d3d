// STARLING_HD marks a function that both the host compiler and nvcc translate, so that a formula
// is written once for CPU loops and CUDA kernels.
#pragma once

#if defined(__CUDACC__)
#define STARLING_HD __host__ __device__
#else
#define STARLING_HD
#endif
