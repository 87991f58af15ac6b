#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
#endif

// Looking up rows of a table by token.
//
// Legend: N tokens, C columns; `tokens: [N]`, `y, dy: [N, C]`, `token_table: [num_table_rows, C]`, which may
// be a slice of a vocabulary's that begins with `first_token`. Tokens that are not in it are left out.

// `y[n] = token_table[tokens[n] - first_token]`, a block per row of `y`.
extern "C" __global__ void __launch_bounds__(256) embedding(
    const u32* __restrict__ tokens,
    const element* __restrict__ token_table,
    element* __restrict__ y,
    u32 first_token,
    u32 num_table_rows,
    u32 width
) {
    // Tokens before the first wrap around to numbers that are too large.
    u32 table_row = tokens[blockIdx.x] - first_token;
    if (table_row >= num_table_rows) {
        return;
    }
    for (u32 column = threadIdx.x; column < width; column += BLOCK_SIZE) {
        y[(u64)blockIdx.x * width + column] = token_table[(u64)table_row * width + column];
    }
}

// Tokens that a block compares at a time: a bit each.
static const u32 NUM_TILE_TOKENS = 1024;
static const u32 NUM_TILE_WORDS = NUM_TILE_TOKENS / 32;

// Whether one of the first `num_tokens` is this one; all threads of the block get the answer.
DEVICE bool is_among(const u32* __restrict__ tokens, u32 num_tokens, u32 token) {
    __shared__ u32 found;
    if (threadIdx.x == 0) {
        found = 0;
    }
    __syncthreads();
    bool mine = false;
    for (u32 n = threadIdx.x; n < num_tokens && !mine; n += BLOCK_SIZE) {
        mine = tokens[n] == token;
    }
    if (mine) {
        atomicOr(&found, 1u);
    }
    __syncthreads();
    return found != 0;
}

// Sets a bit for each token of a tile, from `first` on, that is this one.
DEVICE void find_in_tile(const u32* __restrict__ tokens, u32 num_tokens, u32 first, u32 token, u32* matches) {
    // The words of the tile before have been read.
    __syncthreads();
    if (threadIdx.x < NUM_TILE_WORDS) {
        matches[threadIdx.x] = 0;
    }
    __syncthreads();
    for (u32 place = threadIdx.x; place < NUM_TILE_TOKENS; place += BLOCK_SIZE) {
        if (place < num_tokens - first && tokens[first + place] == token) {
            atomicOr(&matches[place / 32], 1u << place % 32);
        }
    }
    __syncthreads();
}

// `sum += term` over a row.
DEVICE void add_row(float* __restrict__ sum, const element* __restrict__ term, u32 width) {
    for (u32 column = threadIdx.x; column < width; column += BLOCK_SIZE) {
        sum[column] += widened(term[column]);
    }
}

// `dtoken_table[tokens[n] - first_token] += dy[n]`, in row order, the host's bits. A block per row of `dy`:
// that of the first row with its token adds all rows with this token, the others do nothing. So no atomic
// addition decides an order, and nothing need be sorted. The caller clears a table that is to be overwritten.
extern "C" __global__ void __launch_bounds__(256) embedding_backward(
    const u32* __restrict__ tokens,
    const element* __restrict__ dy,
    float* __restrict__ dtoken_table,
    u32 first_token,
    u32 num_table_rows,
    u32 num_tokens,
    u32 width
) {
    __shared__ u32 matches[NUM_TILE_WORDS];
    u32 token = tokens[blockIdx.x];
    // Tokens before the first wrap around to numbers that are too large.
    u32 table_row = token - first_token;
    if (table_row >= num_table_rows || is_among(tokens, blockIdx.x, token)) {
        return;
    }
    float* sum = dtoken_table + (u64)table_row * width;
    for (u32 first = blockIdx.x; first < num_tokens; first += NUM_TILE_TOKENS) {
        find_in_tile(tokens, num_tokens, first, token, matches);
        for (u32 word = 0; word < NUM_TILE_WORDS; word++) {
            u32 n = first + 32 * word;
            for (u32 bits = matches[word]; bits != 0; bits >>= 1, n++) {
                if (bits & 1) {
                    add_row(sum, dy + (u64)n * width, width);
                }
            }
        }
    }
}
