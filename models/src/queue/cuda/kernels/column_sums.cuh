#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
#include "wide.cuh"
#endif

#ifndef PIPEZERO_COLUMN_SUMS
#define PIPEZERO_COLUMN_SUMS

// Sums down the columns of a matrix: a block has two neighbouring packs of columns, together 32 bytes, the
// least that a GPU reads of its memory, and 128 groups of rows. Group `g` adds up the rows `g, g + 128, ...` in order. The 16
// groups of a warp are added as a tree, those 8 apart first, and the warps in order. So the bits depend on
// the number of rows and on nothing else. Rejected: a thread per pack, too few threads for a GPU.
static const u32 NUM_BLOCK_PACKS = 2;
static const u32 NUM_BLOCK_COLUMNS = NUM_BLOCK_PACKS * NUM_PACK_ELEMENTS;
static const u32 NUM_ROW_GROUPS = BLOCK_SIZE / NUM_BLOCK_PACKS;

// The first column of a thread's pack, which may be beyond the last.
DEVICE u32 first_column_of_thread() {
    return blockIdx.x * NUM_BLOCK_COLUMNS + threadIdx.x % NUM_BLOCK_PACKS * NUM_PACK_ELEMENTS;
}

DEVICE u32 row_group_of_thread() {
    return threadIdx.x / NUM_BLOCK_PACKS;
}

// A thread's packs of its group's next rows, which are read together: of `row`, and of those 128, 256 and so
// on behind it.
template <bool WIDE, u32 READS>
DEVICE void load_group_rows(
    Pack<element, NUM_PACK_ELEMENTS> (&packs)[READS],
    const element* __restrict__ matrix,
    u64 row,
    u64 num_rows,
    u32 width
) {
    u32 first = first_column_of_thread();
#pragma unroll
    for (u32 read = 0; read < READS; read++) {
        u64 at = row + read * NUM_ROW_GROUPS;
        u32 num = at < num_rows ? num_from(first, width) : 0;
        packs[read] = load<WIDE, NUM_PACK_ELEMENTS>(matrix + at * width + first, num);
    }
}

// The totals of the block's columns, one for each of its first threads. All threads of the block must call it
// with the sums of their groups.
DEVICE float column_totals(Pack<float, NUM_PACK_ELEMENTS> sums) {
    __shared__ float of_warps[WARPS_PER_BLOCK][NUM_BLOCK_COLUMNS];
    // What a call before this one has left is read no more.
    __syncthreads();
#pragma unroll
    for (u32 index = 0; index < NUM_PACK_ELEMENTS; index++) {
#pragma unroll
        for (u32 distance = WARP_SIZE / 2; distance >= NUM_BLOCK_PACKS; distance /= 2) {
            sums.at[index] += __shfl_xor_sync(WHOLE_WARP, sums.at[index], distance);
        }
        if (lane_index() < NUM_BLOCK_PACKS) {
            of_warps[warp_index()][lane_index() * NUM_PACK_ELEMENTS + index] = sums.at[index];
        }
    }
    __syncthreads();
    float total = 0.0f;
    if (threadIdx.x < NUM_BLOCK_COLUMNS) {
        for (u32 warp = 0; warp < WARPS_PER_BLOCK; warp++) {
            total += of_warps[warp][threadIdx.x];
        }
    }
    return total;
}

// Which column's total the thread has.
DEVICE u32 column_of_total() {
    return blockIdx.x * NUM_BLOCK_COLUMNS + threadIdx.x;
}

// Whether the thread has a column's total.
DEVICE bool has_total(u32 width) {
    return threadIdx.x < NUM_BLOCK_COLUMNS && column_of_total() < width;
}

#endif
