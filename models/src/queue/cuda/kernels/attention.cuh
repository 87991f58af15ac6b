// Causal attention, computed in f32, without keeping the probabilities (FlashAttention, arXiv:2205.14135).
//
// What its kernels have in common. Legend: B sequences, T tokens each, N = B T, H heads of size D, C = H D.
// `qkv: [N, 3 C]` holds every token's queries, keys and values, each `[H, D]`; `out, dout: [N, C]`;
// `log_sum_exp: [B, H, T]`, natural logarithms, of scaled scores.
//
// A block has some rows (queries, or keys in the backward of these) of one head of one sequence, a few of
// them for each warp, and goes through tiles of 32 rows of the other side. Each lane of a warp takes the dot
// products of the warp's rows with one row of the tile; then each lane takes some of the D columns of the
// sums over the tile. Tiles begin at multiples of 32, so a row's sums are in an order that depends on its
// place alone.
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
// The grid has B * H * ceil(T / rows) blocks. Rejected: a warp-wide sum for every score, five shuffles for
// few products.

#ifndef PIPEZERO_ATTENTION
#define PIPEZERO_ATTENTION

// The rows of a tile: one for each lane.
static const u32 TILE_ROWS = 32;

// What one head of one sequence needs of a block, where all rows of `qkv` lie `stride` apart.
struct HeadPlace {
    u32 sequence, head;
    // Where its rows begin in `log_sum_exp` and `row_dots`.
    u64 first_sum;
    // Where its first row begins in `qkv`, and in `out`.
    u64 first_qkv, first_out;
    u64 qkv_stride, out_stride;
    u32 seq_length, head_size;
    // The rows of the block begin here.
    u32 first_row;
    // What scores are multiplied by.
    float scale;
};

DEVICE HeadPlace head_place(u32 seq_length, u32 num_heads, u32 head_size, u32 block_rows) {
    u32 blocks_per_head = (seq_length + block_rows - 1) / block_rows;
    u32 pair = blockIdx.x / blocks_per_head;
    u32 sequence = pair / num_heads;
    u32 head = pair % num_heads;
    u64 width = (u64)num_heads * head_size;
    u64 first_token = (u64)sequence * seq_length;
    HeadPlace place;
    place.sequence = sequence;
    place.head = head;
    place.first_sum = (u64)pair * seq_length;
    place.first_qkv = first_token * 3 * width + (u64)head * head_size;
    place.first_out = first_token * width + (u64)head * head_size;
    place.qkv_stride = 3 * width;
    place.out_stride = width;
    place.seq_length = seq_length;
    place.head_size = head_size;
    place.first_row = blockIdx.x % blocks_per_head * block_rows;
    place.scale = 1.0f / sqrtf((float)head_size);
    return place;
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
