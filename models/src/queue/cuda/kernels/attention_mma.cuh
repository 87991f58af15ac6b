#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
#include "attention.cuh"
#include "warp.cuh"
#endif

// Causal attention in 16 bits on tensor cores (FlashAttention-2, arXiv:2307.08691).
//
// What its kernels have in common. The legend, the layouts, the workspace and the order of the backward's
// kernels are those of attention.cuh; `qkv, out, dout, dqueries` are of 16 bits, `log_sum_exp, row_dots` of
// f32. D is a multiple of 16 and the matrices begin at multiples of 16 bytes, so that all their rows do.
//
// A block has 64 rows (queries, or keys in the backward of these) of one head of one sequence, 16 for each of
// its 4 warps, which keep them in registers. It goes through tiles of rows of the other side, which are
// copied to shared memory while those before are worked on; where it has keys, through those of all heads of
// queries that share them, in ascending order. Products are summed in f32. What a warp gives to a product as
// its left side (probabilities, gradients of scores) is rounded to 16 bits.
//
// Columns beyond D and rows beyond T are zeros in tiles and in registers, and what they add to sums is zero.
// So only tiles on the diagonal are masked, and those in which a document begins, see documents.cuh; a block
// leaves out tiles of which none of its rows sees any.
//
// Each kernel is compiled for two largest head sizes; the grid has B * H * ceil(T / 64) blocks of 128
// threads, that of the keys' backward B * G * ceil(T / 64):
//
// | suffix | D up to |
// |--------|---------|
// | `_64`  | 64      |
// | `_128` | 128     |
//
// and for each a second time, `_documents`, with rows of several documents: the others take null for where
// these begin, which the compiler sees, so documents cost them no register.
#if !defined(ELEMENT_F32) && !defined(PIPEZERO_ATTENTION_MMA)
#define PIPEZERO_ATTENTION_MMA

static const u32 MMA_WARPS = 4;
// The rows of a warp. Tiles are worked on in steps of as many rows.
static const u32 MMA_WARP_ROWS = 16;
static const u32 MMA_BLOCK_ROWS = MMA_WARPS * MMA_WARP_ROWS;
// The keys of a tile: those of four steps share random numbers.
static const u32 MMA_TILE_KEYS = 64;
static const u32 MMA_STEPS = MMA_TILE_KEYS / MMA_WARP_ROWS;
static const float LOG2_E = 1.44269504f;

// The place of a head's block counted from its last, so that blocks that see the most keys begin first and no
// long one is left over at the end.
DEVICE HeadPlace longest_first(HeadPlace place) {
    place.first_row = (place.seq_length - 1) / MMA_BLOCK_ROWS * MMA_BLOCK_ROWS - place.first_row;
    return place;
}

// A number (a score, say) for each row of the warp with each of 16 rows of a tile, in two parts of 16x8.
struct StepProducts {
    float parts[2][4];
};

// The lane's rows are this one of the warp and the one 8 below. Its number `i` of a part is in row `i / 2`.
DEVICE u32 lane_row() {
    return lane_index() / 4;
}

// The lane's first column of each part; number `i` is in column `i % 2`.
DEVICE u32 lane_column() {
    return lane_index() % 4 * 2;
}

// The sum over the four lanes that have the same rows, the same bits in each.
DEVICE float row_sum(float value) {
    value += __shfl_xor_sync(WHOLE_WARP, value, 1);
    return value + __shfl_xor_sync(WHOLE_WARP, value, 2);
}

DEVICE float row_max(float value) {
    value = fmaxf(value, __shfl_xor_sync(WHOLE_WARP, value, 1));
    return fmaxf(value, __shfl_xor_sync(WHOLE_WARP, value, 2));
}

// The products, rounded, as the left side of another product.
DEVICE void round_products(u32* left, const StepProducts& products) {
    ATTENTION_UNROLL
    for (u32 part = 0; part < 2; part++) {
        left[2 * part] = packed(products.parts[part][0], products.parts[part][1]);
        left[2 * part + 1] = packed(products.parts[part][2], products.parts[part][3]);
    }
}

// The first key that one of the lane's two queries sees, of which the warp's first is `first_query`.
DEVICE u32 first_key_of_lane(const HeadPlace& place, u32 first_query, u32 half) {
    return first_key_of_query(place, first_query + lane_row() + 8 * half);
}

// The first key that the last of 16 queries sees: from there on no key is before the document of any of them.
DEVICE u32 first_key_of_all(const HeadPlace& place, u32 first_query) {
    return first_key_of_query(place, first_query + 15);
}

// Where rows are queries, and the step's rows of the tile keys: scores of keys after their query, and before
// its document, become infinitely small. `starts` are the first keys that the lane's two queries see.
DEVICE void hide_keys(StepProducts& scores, u32 first_query, const u32* starts, u32 first_key) {
    ATTENTION_UNROLL
    for (u32 index = 0; index < 8; index++) {
        u32 query = first_query + lane_row() + index % 4 / 2 * 8;
        u32 key = first_key + index / 4 * 8 + lane_column() + index % 2;
        if (key > query || key < starts[index % 4 / 2]) {
            scores.parts[index / 4][index % 4] = negative_infinity();
        }
    }
}

// The same where rows are keys, and the step's rows of the tile queries. What these see is read each time, since
// registers are short.
DEVICE void hide_queries(StepProducts& scores, u32 first_key, u32 first_query, const HeadPlace& place) {
    ATTENTION_UNROLL
    for (u32 index = 0; index < 8; index++) {
        u32 key = first_key + lane_row() + index % 4 / 2 * 8;
        u32 query = first_query + index / 4 * 8 + lane_column() + index % 2;
        if (key > query || key < first_key_of_query(place, query)) {
            scores.parts[index / 4][index % 4] = negative_infinity();
        }
    }
}

// Which elements of a tile of 64 keys dropout keeps, of those that the lane has: bit `8 step + 4 part + i`.
// Rows are queries. Keys 16 apart share a counter, so each counter serves all four steps.
DEVICE u32 kept_keys(const DropoutMasks& masks, const HeadPlace& place, u32 first_query, u32 first_key) {
    // Made anew for each tile: in registers all the time, it would be in the way where nothing is dropped.
    SequenceKey key = sequence_key(masks, place.sequence);
    u32 kept = 0;
    // One after the other, with few registers.
#pragma unroll 1
    for (u32 index = 0; index < 8; index++) {
        u32 query = first_query + lane_row() + index % 4 / 2 * 8;
        u32 column = index / 4 * 8 + lane_column() + index % 2;
        Philox counter = {first_key / 4 + column, query, place.head, masks.place};
        Philox numbers = philox(key.a, key.b, counter);
        kept |= (numbers.a < masks.threshold ? 0u : 1u) << index;
        kept |= (numbers.b < masks.threshold ? 0u : 1u) << (8 + index);
        kept |= (numbers.c < masks.threshold ? 0u : 1u) << (16 + index);
        kept |= (numbers.d < masks.threshold ? 0u : 1u) << (24 + index);
    }
    return kept;
}

// Multiplies what is kept by the masks' scale and the rest by zero.
DEVICE void drop(StepProducts& products, u32 kept, float scale) {
    ATTENTION_UNROLL
    for (u32 index = 0; index < 8; index++) {
        products.parts[index / 4][index % 4] *= kept >> index & 1 ? scale : 0.0f;
    }
}

// What is the same for all kernels of one largest head size, `WIDTH`.
template <u32 WIDTH>
struct AttentionMma {
    static const u32 DEPTH_STEPS = WIDTH / 16;

    // The rows of a warp, as the left side of products.
    struct OwnRows {
        u32 lefts[DEPTH_STEPS][4];
    };

    // A sum for each row of the warp, in parts of 16x8.
    struct Sums {
        float parts[WIDTH / 8][4];
    };

    DEVICE void clear(Sums& sums) {
        ATTENTION_UNROLL
        for (u32 part = 0; part < WIDTH / 8; part++) {
            ATTENTION_UNROLL
            for (u32 index = 0; index < 4; index++) {
                sums.parts[part][index] = 0.0f;
            }
        }
    }

    // The rows from `first` on of a matrix that has `num_rows`.
    DEVICE void load_own(
        OwnRows& own, const element* matrix, u64 stride, u32 first, u32 num_rows, u32 head_size
    ) {
        ATTENTION_UNROLL
        for (u32 step = 0; step < DEPTH_STEPS; step++) {
            ATTENTION_UNROLL
            for (u32 part = 0; part < 4; part++) {
                u32 row = first + lane_row() + part % 2 * 8;
                u32 column = 16 * step + part / 2 * 8 + lane_column();
                bool is_inside = row < num_rows && column < head_size;
                own.lefts[step][part] = is_inside ? load_pair(matrix + row * stride + column) : 0;
            }
        }
    }

    // The dot products of the warp's rows with `16 STEPS` rows of a tile.
    template <u32 STEPS, class Tile>
    DEVICE void dot_products(
        StepProducts (&products)[STEPS], const OwnRows& own, const Tile& tile, u32 first
    ) {
        ATTENTION_UNROLL
        for (u32 index = 0; index < 8 * STEPS; index++) {
            products[index / 8].parts[index % 8 / 4][index % 4] = 0.0f;
        }
        u32 tile_row = first + lane_index() / 16 * 8 + lane_index() % 8;
        SharedAddress rows = tile.address(tile_row, lane_index() / 8 % 2);
        ATTENTION_UNROLL
        for (u32 depth = 0; depth < DEPTH_STEPS; depth++) {
            ATTENTION_UNROLL
            for (u32 step = 0; step < STEPS; step++) {
                u32 parts[4];
                load_parts(parts, (rows ^ 32 * depth) + 16 * step * 2 * WIDTH);
                add_product(products[step].parts[0], own.lefts[depth], parts[0], parts[1]);
                add_product(products[step].parts[1], own.lefts[depth], parts[2], parts[3]);
            }
        }
    }

    // Adds 16 rows of a tile, multiplied by what each row of the warp gives them: `weights`, as a left side.
    template <class Tile>
    DEVICE void add_weighted(Sums& sums, const u32* weights, const Tile& tile, u32 first) {
        SharedAddress rows = tile.address(first + lane_index() % 16, lane_index() / 16);
        ATTENTION_UNROLL
        for (u32 pair = 0; pair < WIDTH / 16; pair++) {
            u32 parts[4];
            load_transposed_parts(parts, rows ^ 32 * pair);
            add_product(sums.parts[2 * pair], weights, parts[0], parts[1]);
            add_product(sums.parts[2 * pair + 1], weights, parts[2], parts[3]);
        }
    }

    // Writes the sums into the rows from `first` on of a matrix that has `num_rows`, the lane's two rows
    // multiplied by the two factors.
    DEVICE void put_rows(
        const Sums& sums, const float* factors, element* matrix, u64 stride, u32 first, u32 num_rows,
        u32 head_size
    ) {
        ATTENTION_UNROLL
        for (u32 half = 0; half < 2; half++) {
            u32 row = first + lane_row() + 8 * half;
            element* to = matrix + row * stride + lane_column();
            ATTENTION_UNROLL
            for (u32 part = 0; part < WIDTH / 8; part++) {
                if (row < num_rows && 8 * part < head_size) {
                    const float* pair = sums.parts[part] + 2 * half;
                    put_pair(to + 8 * part, pair[0] * factors[half], pair[1] * factors[half]);
                }
            }
        }
    }
};

#endif
