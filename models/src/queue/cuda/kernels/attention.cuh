#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "documents.cuh"
#include "element.cuh"
#include "heads.cuh"
#endif

// Causal attention, computed in f32, without keeping the probabilities (FlashAttention, arXiv:2205.14135).
//
// What its kernels have in common. Legend: B sequences, T tokens each, N = B T, H heads of queries and G of
// keys and of values, of size D, C = H D. `qkv: [N, H + 2 G, D]`, see heads.cuh; `out, dout: [N, C]`;
// `log_sum_exp: [B, H, T]`, natural logarithms, of scaled scores.
//
// A block has some rows (queries, or keys in the backward of these) of one head of one sequence, a few of
// them for each warp, and goes through tiles of 32 rows of the other side; one that has keys through those of
// all heads of queries that share them, in ascending order. Each lane of a warp takes the dot products of the
// warp's rows with one row of the tile; then each lane takes some of the D columns of the sums over the tile.
// Tiles begin at multiples of 32, so a row's sums are in an order that depends on its place alone.
//
// Rows may have several documents, see documents.cuh. A block leaves out the tiles of which none of its rows
// sees any, which would add nothing but zeros; what rows do not see of the others is masked.
//
// The backward needs a workspace of N C + B H T elements, which the host's `backward_workspace` always
// covers: `dqueries: [N, C]`, since queries are read until all keys have their gradients, and `row_dots: [B,
// H, T]`. Its kernels are, in this order, `attention_backward_queries_*` (which writes both),
// `attention_backward_keys_*` (keys and values become their gradients in place: only their own block reads
// them) and `attention_put_queries`. The forward needs none.
//
// Each kernel is compiled for three largest head sizes; per block:
//
// | suffix | D up to | threads | rows |
// |--------|---------|---------|------|
// | `_64`  | 64      | 256     | 32   |
// | `_128` | 128     | 256     | 16   |
// | `_256` | 256     | 128     | 4    |
//
// The grid has B * H * ceil(T / rows) blocks, that of `attention_backward_keys_*` B * G * ceil(T / rows).
// Rejected: a warp-wide sum for every score, five shuffles for few products.

#ifndef PIPEZERO_ATTENTION
#define PIPEZERO_ATTENTION

// The rows of a tile: one for each lane.
static const u32 TILE_ROWS = 32;

// What one head of queries of one sequence needs of a block, and the head of keys and values that it shares.
struct HeadPlace {
    u32 sequence, head;
    // Where its rows begin in `log_sum_exp` and `row_dots`.
    u64 first_sum;
    // Where its first rows begin in `qkv`, and in `out`.
    u64 first_queries, first_keys, first_out;
    // How far its rows lie apart there.
    u32 qkv_stride, out_stride;
    // How far its values lie behind its keys.
    u32 kv_width;
    u32 seq_length, head_size;
    // Heads of queries that share the keys.
    u32 group_size;
    // The rows of the block begin here.
    u32 first_row;
    // What scores are multiplied by.
    float scale;
    // Of the row of tokens.
    const u32* document_starts;
};

// The place of the first head of queries that a block goes through, where the blocks share out `num_heads`
// heads: those of queries, or those of keys.
DEVICE HeadPlace place_of_block(
    const AttentionSizes& sizes, const u32* document_starts, u32 num_heads, u32 block_rows
) {
    u32 blocks_per_head = (sizes.seq_length + block_rows - 1) / block_rows;
    u32 pair = blockIdx.x / blocks_per_head;
    u32 group_size = sizes.num_heads / sizes.num_kv_heads;
    // How many heads of queries the block goes through.
    u32 num_shared = sizes.num_heads / num_heads;
    HeadPlace place;
    place.sequence = pair / num_heads;
    place.head = pair % num_heads * num_shared;
    u32 kv_head = place.head / group_size;
    u32 size = sizes.head_size;
    u64 first_token = (u64)place.sequence * sizes.seq_length;
    place.first_sum = (u64)pair * num_shared * sizes.seq_length;
    place.qkv_stride = num_qkv_heads(sizes) * size;
    place.out_stride = sizes.num_heads * size;
    u64 first_qkv = first_token * place.qkv_stride;
    place.first_queries = first_qkv + place.head * size;
    place.first_keys = first_qkv + (sizes.num_heads + kv_head) * size;
    place.first_out = first_token * place.out_stride + place.head * size;
    place.kv_width = sizes.num_kv_heads * sizes.head_size;
    place.seq_length = sizes.seq_length;
    place.head_size = sizes.head_size;
    place.group_size = group_size;
    place.first_row = blockIdx.x % blocks_per_head * block_rows;
    place.scale = 1.0f / sqrtf((float)sizes.head_size);
    place.document_starts = starts_of_row(document_starts, first_token);
    return place;
}

// Where the rows of a block are queries.
DEVICE HeadPlace head_place(const AttentionSizes& sizes, const u32* document_starts, u32 block_rows) {
    return place_of_block(sizes, document_starts, sizes.num_heads, block_rows);
}

// Where the rows of a block are keys: the first of the heads of queries that share them.
DEVICE HeadPlace key_head_place(const AttentionSizes& sizes, const u32* document_starts, u32 block_rows) {
    return place_of_block(sizes, document_starts, sizes.num_kv_heads, block_rows);
}

// The first key that a query of the block sees, where its rows are queries.
DEVICE u32 first_key_of_block(const HeadPlace& place) {
    return document_start(place.document_starts, place.first_row);
}

// The first key that a query sees.
DEVICE u32 first_key_of_query(const HeadPlace& place, u32 query) {
    return document_start_inside(place.document_starts, query, place.seq_length);
}

// The position behind the last query that sees a key of the block, where its `block_rows` rows are keys.
DEVICE u32 end_of_queries(const HeadPlace& place, u32 block_rows) {
    u32 last_key = min(place.first_row + block_rows, place.seq_length) - 1;
    return document_end(place.document_starts, last_key, place.seq_length);
}

// Goes on to the next head of queries, which shares the same keys.
DEVICE void go_to_next_head(HeadPlace& place) {
    place.head++;
    place.first_sum += place.seq_length;
    place.first_queries += place.head_size;
    place.first_out += place.head_size;
}

// What a probability is multiplied by.
DEVICE float probability_factor(
    const DropoutMasks& masks, SequenceKey sequence, u32 query, u32 head, u32 key
) {
    return masks.threshold == 0 ? 1.0f : element_factor(masks, sequence, query, head, key);
}

// Loops with a number of turns that is known at compile time, so that arrays stay in registers.
#ifdef __CUDACC__
#define ATTENTION_UNROLL _Pragma("unroll")
#else
#define ATTENTION_UNROLL
#endif

// What is the same for all kernels of one largest head size: `WARPS` warps with `ROWS` rows each, and lanes
// that have `SLICES` columns each, 32 apart.
template <u32 SLICES, u32 WARPS, u32 ROWS>
struct Attention {
    static const u32 COLUMNS = WARP_SIZE * SLICES;
    static const u32 BLOCK_ROWS = WARPS * ROWS;

    // A column more than a row has, so that lanes that read one column of 32 rows read 32 banks.
    struct Tile {
        float rows[TILE_ROWS][COLUMNS + 1];
    };

    // The rows of a warp, those of one column side by side: they are read together.
    struct alignas(16) OwnRows {
        float columns[COLUMNS][ROWS];
    };

    // What the rows of a warp give each row of the tile.
    struct alignas(16) Weights {
        float tile_rows[TILE_ROWS][ROWS];
    };

    // A lane's columns of a sum for each row of the warp.
    struct Sums {
        float values[ROWS][SLICES];
    };

    DEVICE void clear(Sums& sums) {
        ATTENTION_UNROLL
        for (u32 row = 0; row < ROWS; row++) {
            ATTENTION_UNROLL
            for (u32 slice = 0; slice < SLICES; slice++) {
                sums.values[row][slice] = 0.0f;
            }
        }
    }

    // The rows from `first` on of a matrix that has `num_rows`, by all threads of the block; what is beyond
    // is zero. The tile has been read before and may be read after it.
    DEVICE void load_tile(
        Tile& tile, const element* matrix, u64 stride, u32 first, u32 num_rows, u32 head_size
    ) {
        __syncthreads();
        for (u32 index = threadIdx.x; index < TILE_ROWS * COLUMNS; index += WARPS * WARP_SIZE) {
            u32 row = index / COLUMNS;
            u32 column = index % COLUMNS;
            bool is_inside = first + row < num_rows && column < head_size;
            tile.rows[row][column] = is_inside ? widened(matrix[(first + row) * stride + column]) : 0.0f;
        }
        __syncthreads();
    }

    // The same for the rows of a warp, by its lanes. They are read after the next barrier.
    DEVICE void load_own(
        OwnRows& own, const element* matrix, u64 stride, u32 first, u32 num_rows, u32 head_size
    ) {
        for (u32 row = 0; row < ROWS; row++) {
            for (u32 column = lane_index(); column < COLUMNS; column += WARP_SIZE) {
                bool is_inside = first + row < num_rows && column < head_size;
                u64 index = (first + row) * stride + column;
                own.columns[column][row] = is_inside ? widened(matrix[index]) : 0.0f;
            }
        }
    }

    // The dot products of the warp's rows with the lane's row of the tile.
    DEVICE void dot_products(const OwnRows& own, const Tile& tile, u32 head_size, float* products) {
        ATTENTION_UNROLL
        for (u32 row = 0; row < ROWS; row++) {
            products[row] = 0.0f;
        }
        const float* tile_row = tile.rows[lane_index()];
        for (u32 column = 0; column < head_size; column++) {
            ATTENTION_UNROLL
            for (u32 row = 0; row < ROWS; row++) {
                products[row] = fmaf(own.columns[column][row], tile_row[column], products[row]);
            }
        }
    }

    // Adds the rows of the tile, multiplied by the weights that the warp's lanes have just written.
    DEVICE void add_weighted(const Weights& weights, const Tile& tile, Sums& sums) {
        for (u32 tile_row = 0; tile_row < TILE_ROWS; tile_row++) {
            ATTENTION_UNROLL
            for (u32 slice = 0; slice < SLICES; slice++) {
                float value = tile.rows[tile_row][slice * WARP_SIZE + lane_index()];
                ATTENTION_UNROLL
                for (u32 row = 0; row < ROWS; row++) {
                    float& sum = sums.values[row][slice];
                    sum = fmaf(weights.tile_rows[tile_row][row], value, sum);
                }
            }
        }
    }

    // Writes the lane's columns of one of the warp's rows.
    DEVICE void put_row(const float* values, float factor, element* to, u32 head_size) {
        ATTENTION_UNROLL
        for (u32 slice = 0; slice < SLICES; slice++) {
            u32 column = slice * WARP_SIZE + lane_index();
            if (column < head_size) {
                to[column] = narrowed(values[slice] * factor);
            }
        }
    }

    // The same for all of them, into a matrix that has `num_rows`.
    DEVICE void put_rows(
        const Sums& sums, element* matrix, u64 stride, u32 first, u32 num_rows, u32 head_size
    ) {
        ATTENTION_UNROLL
        for (u32 row = 0; row < ROWS; row++) {
            if (first + row < num_rows) {
                put_row(sums.values[row], 1.0f, matrix + (first + row) * stride, head_size);
            }
        }
    }
};

#endif
