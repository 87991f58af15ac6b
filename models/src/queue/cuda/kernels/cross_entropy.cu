#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "cross_entropy.cuh"
#include "wide.cuh"
#endif

// Softmax and cross-entropy in one, over each row of logits.
//
// Legend: N rows, V columns; `logits: [N, num_columns]`, those of the tokens from `first_token` on, `targets:
// [N]`, `statistics: [N, 3]`: see `kernels/cross_entropy.rs` for what they are and for the order of sums.
//
// A row's columns are seen in blocks of 1024, a warp for each, and brought together in order and in f64. So
// the bits depend on where blocks begin, and not on how many of them one launch is given.

static const u32 NUM_BLOCK_TOKENS = 1024;
// Packs of a lane in a block: pack `32 i + lane` is its pack `i`.
static const u32 NUM_LANE_PACKS = NUM_BLOCK_TOKENS / (WARP_SIZE * NUM_PACK_FLOATS);

// The larger one; NaN if there is one, so that a broken value is seen and not skipped.
DEVICE float larger(float a, float b) {
    return a >= b || a != a ? a : b;
}

// The largest logit `max` and the sum of all `exp(x - max)`.
struct SoftmaxSum {
    float max, sum;
};

// Calls `f` with each of a lane's logits, in order, and with whether there is one.
template <bool WIDE, class F>
DEVICE void for_logits(const Pack<float, NUM_PACK_FLOATS> (&packs)[NUM_LANE_PACKS], u32 num_columns, F f) {
#pragma unroll
    for (u32 place = 0; place < NUM_LANE_PACKS; place++) {
        u32 first = (place * WARP_SIZE + lane_index()) * NUM_PACK_FLOATS;
#pragma unroll
        for (u32 index = 0; index < NUM_PACK_FLOATS; index++) {
            f(packs[place].at[index], WIDE || first + index < num_columns);
        }
    }
}

// Those of the first 1024 logits, or of all where there are fewer, in every lane of a warp. A lane reads its
// logits once, all at a time, and adds them up in order. `WIDE` says that there are 1024, and that packs are
// read as one.
template <bool WIDE>
DEVICE SoftmaxSum softmax_sum(const float* __restrict__ logits, u32 num_columns) {
    Pack<float, NUM_PACK_FLOATS> packs[NUM_LANE_PACKS];
#pragma unroll
    for (u32 place = 0; place < NUM_LANE_PACKS; place++) {
        u32 first = (place * WARP_SIZE + lane_index()) * NUM_PACK_FLOATS;
        u32 num = WIDE ? NUM_PACK_FLOATS : num_from(first, num_columns);
        packs[place] = load<WIDE, NUM_PACK_FLOATS>(logits + first, num);
    }
    float max = negative_infinity();
    float sum = 0.0f;
    for_logits<WIDE>(packs, num_columns, [&](float logit, bool is_logit) {
        max = is_logit ? larger(max, logit) : max;
    });
    for (u32 distance = WARP_SIZE / 2; distance > 0; distance /= 2) {
        max = larger(max, __shfl_xor_sync(WHOLE_WARP, max, distance));
    }
    for_logits<WIDE>(packs, num_columns, [&](float logit, bool is_logit) {
        sum += is_logit ? bounded_exp(logit - max) : 0.0f;
    });
    return {max, warp_sum(sum)};
}

// The two brought together, rounded once.
DEVICE SoftmaxSum with_block(SoftmaxSum seen, SoftmaxSum block) {
    float max = fmaxf(seen.max, block.max);
    double of_seen = (double)seen.sum * exp((double)(seen.max - max));
    double of_block = (double)block.sum * exp((double)(block.max - max));
    return {max, (float)(of_seen + of_block)};
}

// The statistics of a row that a launch begins with: none where it begins with token 0.
struct SeenRow {
    bool any;
    SoftmaxSum softmax;
    float target_logit;
};

DEVICE SeenRow seen_row(const float* kept, u32 first_token) {
    if (first_token == 0) {
        return {false, {0.0f, 0.0f}, 0.0f};
    }
    return {true, {kept[0], kept[1]}, kept[2]};
}

// Goes on with the statistics of each row, a block per row, with a warp for each 1024 of its columns, eight at
// most. `first_token` is a multiple of 1024.
extern "C" __global__ void __launch_bounds__(256) cross_entropy(
    const float* __restrict__ logits,
    const u32* __restrict__ targets,
    float* __restrict__ statistics,
    u32 first_token,
    u32 num_columns
) {
    __shared__ SoftmaxSum of_blocks[WARPS_PER_BLOCK];
    const float* row = logits + (u64)blockIdx.x * num_columns;
    float* kept = statistics + (u64)blockIdx.x * NUM_STATISTICS;
    // Only thread 0 goes on with it.
    SeenRow seen = seen_row(kept, first_token);
    u32 num_blocks = (num_columns + NUM_BLOCK_TOKENS - 1) / NUM_BLOCK_TOKENS;
    u32 num_warps = blockDim.x / WARP_SIZE;
    for (u32 first = 0; first < num_blocks; first += num_warps) {
        u32 block = first + warp_index();
        if (block < num_blocks) {
            u32 rest = num_columns - block * NUM_BLOCK_TOKENS;
            const float* start = row + block * NUM_BLOCK_TOKENS;
            bool is_wide = rest >= NUM_BLOCK_TOKENS && are_aligned(row);
            SoftmaxSum of_block = is_wide ? softmax_sum<true>(start, rest) : softmax_sum<false>(start, rest);
            if (lane_index() == 0) {
                of_blocks[warp_index()] = of_block;
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            for (u32 warp = 0; warp < num_warps && first + warp < num_blocks; warp++) {
                seen.softmax = seen.any ? with_block(seen.softmax, of_blocks[warp]) : of_blocks[warp];
                seen.any = true;
            }
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        u32 target = targets[blockIdx.x];
        kept[0] = seen.softmax.max;
        kept[1] = seen.softmax.sum;
        bool is_here = has_target(target, first_token, num_columns);
        kept[2] = is_here ? row[target - first_token] : seen.target_logit;
    }
}

// The logarithm of all exponentials' sum takes the place of the largest logit: a thread per row.
extern "C" __global__ void __launch_bounds__(256)
cross_entropy_log_sums(float* __restrict__ statistics, u64 num_rows) {
    u64 row = element_index();
    if (row < num_rows) {
        float* kept = statistics + row * NUM_STATISTICS;
        kept[0] = (float)((double)kept[0] + log((double)kept[1]));
    }
}

// The words of a summed loss, low ones first.
DEVICE void put_loss(u32* __restrict__ loss, double sum, u64 num_targets) {
    u64 bits;
    memcpy(&bits, &sum, sizeof bits);
    loss[0] = (u32)bits;
    loss[1] = (u32)(bits >> 32);
    loss[2] = (u32)num_targets;
    loss[3] = (u32)(num_targets >> 32);
}

// How many of a thread's targets count; the sum over the threads of the block, in all of them.
DEVICE u64 block_count(const u32* __restrict__ targets, u64 num_rows) {
    __shared__ u64 count;
    if (threadIdx.x == 0) {
        count = 0;
    }
    __syncthreads();
    u64 mine = 0;
    for (u64 row = threadIdx.x; row < num_rows; row += BLOCK_SIZE) {
        mine += targets[row] != IGNORED_TARGET;
    }
    atomicAdd(&count, mine);
    __syncthreads();
    return count;
}

// Rows whose losses are laid ready at a time.
static const u32 NUM_TILE_LOSSES = 1024;

// Each row's loss, from the logarithm of its exponentials' sum and its target's logit, and zero where there
// is none.
DEVICE void put_row_losses(
    const u32* __restrict__ targets,
    const float* __restrict__ statistics,
    u64 first,
    u64 num_rows,
    double* losses
) {
    for (u32 place = threadIdx.x; place < NUM_TILE_LOSSES; place += BLOCK_SIZE) {
        u64 row = first + place;
        bool counts = row < num_rows && targets[row] != IGNORED_TARGET;
        const float* kept = statistics + row * NUM_STATISTICS;
        losses[place] = counts ? (double)kept[0] - (double)kept[2] : 0.0;
    }
}

// The summed loss, after `cross_entropy_log_sums`, as `LossSum::to_words` has it. One block: a single thread
// adds in row order, in f64, since the host's bits are those of this order, while all of them lay the terms
// ready.
extern "C" __global__ void __launch_bounds__(256) cross_entropy_loss(
    const u32* __restrict__ targets,
    const float* __restrict__ statistics,
    u32* __restrict__ loss,
    u64 num_rows
) {
    __shared__ double losses[NUM_TILE_LOSSES];
    double sum = 0.0;
    for (u64 first = 0; first < num_rows; first += NUM_TILE_LOSSES) {
        put_row_losses(targets, statistics, first, num_rows, losses);
        __syncthreads();
        if (threadIdx.x == 0) {
            // The sum is never -0.0, so that adding a zero changes no bit.
#pragma unroll 16
            for (u32 place = 0; place < NUM_TILE_LOSSES; place++) {
                sum += losses[place];
            }
        }
        __syncthreads();
    }
    u64 num_targets = block_count(targets, num_rows);
    if (threadIdx.x == 0) {
        put_loss(loss, sum, num_targets);
    }
}

// One nat for each target that counts. One block.
extern "C" __global__ void __launch_bounds__(256)
count_targets(const u32* __restrict__ targets, u32* __restrict__ loss, u64 num_rows) {
    u64 num_targets = block_count(targets, num_rows);
    if (threadIdx.x == 0) {
        put_loss(loss, (double)num_targets, num_targets);
    }
}
