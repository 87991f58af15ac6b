#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
#endif

// The gradient of a bias, the sum over rows.
//
// Legend: N rows, C columns; `bias, dbias: [C]`, the rest `[N, C]`.

// The sum of the rows of `dy`: see `column_total`.
extern "C" __global__ void __launch_bounds__(256) bias_backward(
    const element* __restrict__ dy,
    float* __restrict__ dbias,
    u64 num_rows,
    u32 width,
    int add
) {
    u32 column = column_of_thread();
    float sum = 0.0f;
    if (column < width) {
#pragma unroll 8
        for (u64 row = row_group_of_thread(); row < num_rows; row += NUM_ROW_GROUPS) {
            sum += widened(dy[row * width + column]);
        }
    }
    sum = column_total(sum);
    if (row_group_of_thread() == 0 && column < width) {
        dbias[column] = written(dbias[column], sum, add);
    }
}
