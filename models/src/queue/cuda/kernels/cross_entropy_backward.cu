#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "cross_entropy.cuh"
#include "element.cuh"
#include "wide.cuh"
#endif

// Logits become their gradient: `seed * (softmax - one_hot(target))`, zero where the target is ignored. A
// block per row; a thread takes four logits at a time. The gradient of a row is of elements at the beginning
// of the row's own bytes: the barrier is between a turn's reads and its writes, and what is written is where
// this turn or one before it has read.
//
// Legend: as in `cross_entropy.cu`.
extern "C" __global__ void __launch_bounds__(256) cross_entropy_backward(
    float* logits,
    const u32* __restrict__ targets,
    const float* __restrict__ statistics,
    u32 first_token,
    u32 num_columns,
    float seed
) {
    float* row = logits + (u64)blockIdx.x * num_columns;
    u32 target = targets[blockIdx.x];
    float log_sum_exp = statistics[(u64)blockIdx.x * NUM_STATISTICS];
    bool is_here = has_target(target, first_token, num_columns);
    for (u32 first = 0; first < num_columns; first += BLOCK_SIZE * NUM_PACK_FLOATS) {
        u32 column = first + threadIdx.x * NUM_PACK_FLOATS;
        auto place = place_at<NUM_PACK_FLOATS>(column, num_columns, are_aligned(row));
        Pack<float, NUM_PACK_FLOATS> values = load(row, place);
#pragma unroll
        for (u32 index = 0; index < NUM_PACK_FLOATS; index++) {
            float gradient = seed * bounded_exp(values.at[index] - log_sum_exp);
            bool is_target = is_here && column + index == target - first_token;
            gradient -= is_target ? seed : 0.0f;
            values.at[index] = target == IGNORED_TARGET ? 0.0f : gradient;
        }
        Pack<element, NUM_PACK_FLOATS> narrow = narrowed(values);
        __syncthreads();
        store((element*)row, place, narrow);
    }
}
