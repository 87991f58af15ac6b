#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
#include "attention.cuh"
#include "warp.cuh"
#include "attention_mma.cuh"
#endif

// Tiles of attention's matrices in shared memory, and how they get there: see attention_mma.cuh.
#if !defined(ELEMENT_F32) && !defined(PIPEZERO_ATTENTION_MMA_TILES)
#define PIPEZERO_ATTENTION_MMA_TILES

// Rows of a matrix in shared memory. Of a row, the 16 bytes of chunk `c` lie where chunk `c ^ (row % 8)`
// would: so the same chunk of eight neighbouring rows, which is loaded at once, lies in all 32 banks. As rows
// are aligned to their size, the chunk an even number `n` further on is where flipping the bits of `16 n` in
// the address leads.
template <u32 WIDTH, u32 ROWS>
struct alignas(2 * WIDTH) MmaTile {
    static const u32 CHUNKS = WIDTH / CHUNK_ELEMENTS;
    element elements[ROWS * WIDTH];

    // Where a chunk of a row lies.
    __device__ __forceinline__ element* chunk(u32 row, u32 index) {
        return elements + row * WIDTH + (index ^ row % 8) * CHUNK_ELEMENTS;
    }

    __device__ __forceinline__ SharedAddress address(u32 row, u32 index) const {
        return shared_address(elements + row * WIDTH + (index ^ row % 8) * CHUNK_ELEMENTS);
    }

    // Starts to copy the rows from `first` on of a matrix that has `num_rows`, by all threads of the block.
    // A thread has the same chunk of several rows; as they are a multiple of 8 apart, it lies in the same
    // place of each.
    __device__ __forceinline__ void start_load(
        const element* matrix, u64 stride, u32 first, u32 num_rows, u32 head_size
    ) {
        const u32 TURN_ROWS = MMA_WARPS * WARP_SIZE / CHUNKS;
        static_assert(TURN_ROWS % 8 == 0 && ROWS % TURN_ROWS == 0, "all threads have as many rows");
        u32 tile_row = threadIdx.x / CHUNKS;
        u32 column = threadIdx.x % CHUNKS * CHUNK_ELEMENTS;
        u32 end = column < head_size ? num_rows : 0;
        element* to = chunk(tile_row, threadIdx.x % CHUNKS);
        const element* from = matrix + (first + tile_row) * stride + column;
        ATTENTION_UNROLL
        for (u32 row = 0; row < ROWS; row += TURN_ROWS) {
            start_copy(to + row * WIDTH, from, first + tile_row + row < end);
            from += TURN_ROWS * stride;
        }
    }
};

// The tiles of two matrices, one of each in turn, through `SLOTS` slots of shared memory: while one is worked
// on, the copies of the next `SLOTS - 1` are under way.
template <u32 WIDTH, u32 SLOTS>
struct TileStream {
    typedef MmaTile<WIDTH, MMA_TILE_KEYS> Tile;

    // In shared memory: kernels declare it.
    struct Slots {
        Tile tiles[SLOTS];
    };

    Tile* slots;
    const element *even_matrix, *odd_matrix;
    u64 stride;
    u32 num_rows, head_size;
    // Where the first tiles begin.
    u32 first_row;
    u32 num_tiles;
    // Tiles whose copies were started, and the slots of the next such tile and of the next that is worked on.
    u32 num_started, next_slot, slot;

    __device__ __forceinline__ void start_next() {
        if (num_started < num_tiles) {
            const element* matrix = num_started % 2 == 0 ? even_matrix : odd_matrix;
            u32 first = first_row + num_started / 2 * MMA_TILE_KEYS;
            slots[next_slot].start_load(matrix, stride, first, num_rows, head_size);
        }
        // Also an empty group counts, so that the number of groups is always that of the tiles.
        close_copy_group();
        num_started++;
        next_slot = next_slot + 1 == SLOTS ? 0 : next_slot + 1;
    }

    __device__ __forceinline__ void begin() {
        num_started = next_slot = slot = 0;
        for (u32 index = 0; index + 1 < SLOTS; index++) {
            start_next();
        }
    }

    // The next tile, of which all threads of the block have their copies. They have all left the tile before
    // it, whose slot is the next to be written.
    __device__ __forceinline__ const Tile& next() {
        const Tile& tile = slots[slot];
        wait_for_copies<SLOTS - 2>();
        __syncthreads();
        start_next();
        slot = slot + 1 == SLOTS ? 0 : slot + 1;
        return tile;
    }
};

#endif
