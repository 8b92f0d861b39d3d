#include "cuda/norms.cuh"

#include <algorithm>

#include "cuda/block_memory.h"
#include "cuda/norm_kernels.cuh"
#include "cuda/packs.cuh"

namespace starling::cuda {

namespace {

template <bool kBranch, class T>
void norm_rows(Stream stream, const NormRows<T>& rows, const NormShape& shape) {
  const bool packs = in_packs(shape.width, {rows.out, rows.in, rows.gain, rows.sum});
  with_count(packs, [&](auto count) {
    launch({.stream = stream,
            .operation = "rms_norm",
            .blocks = {static_cast<unsigned>(shape.rows), 1, 1},
            .threads = row_threads(shape.width, count, kRowThreadsMax)},
           rms_norm_kernel<count, T, kBranch>, rows, shape);
  });
}

template <class T>
void gradients_of_rows(Stream stream, const NormGradients<T>& gradients, const NormShape& shape,
                       unsigned blocks) {
  const bool packs = in_packs(shape.width, {gradients.in_grad, gradients.in_grad_rounded,
                                            gradients.out_grad, gradients.in, gradients.gain});
  with_count(packs, [&](auto count) {
    launch({.stream = stream,
            .operation = "rms_norm_backward",
            .blocks = {blocks, 1, 1},
            .threads = row_threads(shape.width, count, kRowThreadsMax),
            .shared_bytes = norm_backward_bytes(shape.width)},
           rms_norm_backward_kernel<count, T>, gradients, shape);
  });
}

}  // namespace

void CudaNorms::forward(Stream stream, const model::RmsNorm<>& args) {
  STARLING_ASSERT(args.in.shape == args.out.shape);
  STARLING_ASSERT(args.gain.elements() == args.in.columns());
  STARLING_ASSERT(args.inverse_rms.elements() == args.in.rows());
  with_type(args.out.dtype, [&](auto number) {
    using T = decltype(number);
    norm_rows<false, T>(stream,
                        {.out = args.out.as<T>().data,
                         .inverse_rms = args.inverse_rms.data,
                         .in = args.in.data,
                         .gain = args.gain.data},
                        {args.in.rows(), args.in.columns(), args.epsilon});
  });
}

void CudaNorms::add_and_norm(Stream stream, const model::LinearResidualNorm<>& args) {
  STARLING_ASSERT(args.out.shape == args.residual.shape);
  STARLING_ASSERT(args.out.shape == args.normed.shape);
  STARLING_ASSERT(args.gain.elements() == args.out.columns());
  STARLING_ASSERT(args.inverse_rms.elements() == args.out.rows());
  norm_rows<true, bf16>(stream,
                        {.out = args.normed.as<bf16>().data,
                         .inverse_rms = args.inverse_rms.data,
                         .in = args.residual.data,
                         .gain = args.gain.data,
                         .sum = args.out.data},
                        {args.out.rows(), args.out.columns(), args.epsilon});
}

void CudaNorms::backward(Stream stream, const model::RmsNormBackward<>& args) {
  STARLING_ASSERT(args.in.shape == args.in_grad.shape);
  STARLING_ASSERT(args.in.shape == args.in_grad_rounded.shape);
  STARLING_ASSERT(args.in.shape == args.out_grad.shape);
  STARLING_ASSERT(args.gain.shape == args.gain_grad.shape);
  const NormShape shape{args.in.rows(), args.in.columns()};
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(kGainBlocks, shape.rows));
  float* partial = gain_partial_.at_least<float>(kGainBlocks * shape.width);
  with_type(args.out_grad.dtype, [&](auto number) {
    using T = decltype(number);
    gradients_of_rows<T>(stream,
                         {.in_grad = args.in_grad.data,
                          .in_grad_rounded = args.in_grad_rounded.as<T>().data,
                          .gain_partial = partial,
                          .out_grad = args.out_grad.as<T>().data,
                          .in = args.in.data,
                          .gain = args.gain.data,
                          .inverse_rms = args.inverse_rms.data},
                         shape, blocks);
  });
  launch({.stream = stream,
          .operation = "rms_norm_backward",
          .blocks = {blocks_for(shape.width, kWarp), 1, 1},
          .threads = kAddWarps * kWarp},
         add_rows_kernel, args.gain_grad.data, partial, static_cast<std::int64_t>(blocks),
         shape.width, args.adds);
}

}  // namespace starling::cuda
