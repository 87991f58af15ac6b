#ifndef __CUDACC_RTC__
#include "column_sums.cuh"
#include "common.cuh"
#include "element.cuh"
#include "wide.cuh"
#endif

// The gradient of a bias, the sum over rows.
//
// Legend: N rows, C columns; `bias, dbias: [C]`, the rest `[N, C]`.

// The sums of a thread's group of rows, for the columns of its pack.
template <bool WIDE>
DEVICE Pack<float, NUM_PACK_ELEMENTS> sums_of_group(const element* __restrict__ dy, u64 num_rows, u32 width) {
    const u32 READS = WIDE ? 8 : 1;
    Pack<float, NUM_PACK_ELEMENTS> sums = {};
    for (u64 row = row_group_of_thread(); row < num_rows; row += READS * NUM_ROW_GROUPS) {
        Pack<element, NUM_PACK_ELEMENTS> packs[READS];
        load_group_rows<WIDE>(packs, dy, row, num_rows, width);
        // Rows that there are not are zeros, which change no bit.
#pragma unroll
        for (u32 place = 0; place < READS * NUM_PACK_ELEMENTS; place++) {
            Pack<element, NUM_PACK_ELEMENTS> pack = packs[place / NUM_PACK_ELEMENTS];
            sums.at[place % NUM_PACK_ELEMENTS] += widened(pack.at[place % NUM_PACK_ELEMENTS]);
        }
    }
    return sums;
}

// The sum of the rows of `dy`: see `column_totals`. There are few blocks, so threads get registers for many
// reads at a time. Without the bound of two blocks on a multiprocessor, the compiler saves registers for more
// of them and has each read wait for the one before it.
extern "C" __global__ void __launch_bounds__(256, 2) bias_backward(
    const element* __restrict__ dy,
    float* __restrict__ dbias,
    u64 num_rows,
    u32 width,
    int add
) {
    bool is_wide = are_rows_wide<NUM_PACK_ELEMENTS>(width, dy);
    float total = column_totals(
        is_wide ? sums_of_group<true>(dy, num_rows, width) : sums_of_group<false>(dy, num_rows, width)
    );
    if (has_total(width)) {
        dbias[column_of_total()] = written(dbias[column_of_total()], total, add);
    }
}
