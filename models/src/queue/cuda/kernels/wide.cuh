#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
#endif

// Sixteen bytes at once, the most that one instruction of a thread reads or writes.
//
// A thread of a kernel that mostly waits for memory takes a pack: neighbouring elements of 16 bytes. Where a
// pack cannot be accessed as one, because an address is no multiple of 16 bytes or because an array ends
// within the pack, the same thread takes the same elements one by one. So no result and no order of a sum
// depends on where arrays begin. Rejected: to begin packs where memory is aligned, which moves elements from
// one thread's sum to another's.
#ifndef PIPEZERO_WIDE
#define PIPEZERO_WIDE

static const u32 WIDE_BYTES = 16;
// Elements of a pack.
static const u32 NUM_PACK_ELEMENTS = WIDE_BYTES / sizeof(element);
// The same of a pack of f32, where a kernel has nothing else.
static const u32 NUM_PACK_FLOATS = WIDE_BYTES / sizeof(float);

// N neighbours, aligned so that they are read and written 16 bytes at a time, or as one where they are fewer.
template <class T, u32 N>
struct alignas(N * sizeof(T) % WIDE_BYTES == 0 ? WIDE_BYTES : N * sizeof(T)) Pack {
    T at[N];
};

// Whether all of the arrays begin at a multiple of 16 bytes.
template <class... T>
DEVICE bool are_aligned(const T*... arrays) {
    return ((u64)arrays | ...) % WIDE_BYTES == 0;
}

// Whether all packs of all rows can be accessed as one. The arrays begin where a row does.
template <u32 N, class... T>
DEVICE bool are_rows_wide(u32 width, const T*... arrays) {
    return are_aligned(arrays...) && width % N == 0;
}

// How many elements of a row there are from one on, none where it is beyond the last.
DEVICE u32 num_from(u32 first, u32 width) {
    return first < width ? width - first : 0;
}

// Whether a pack has this element, if `num` of its elements are there or more than it holds. `WIDE` says that
// it has all or none.
template <bool WIDE>
DEVICE bool is_there(u32 index, u32 num) {
    return WIDE ? num != 0 : index < num;
}

// Reads those of N elements that are there; the others are zero. `WIDE` says that they are read as one. Loops
// over packs are compiled for both ways: with a branch at each read, fewer would be under way together.
template <bool WIDE, u32 N, class T>
DEVICE Pack<T, N> load(const T* from, u32 num) {
    Pack<T, N> pack = {};
    if (WIDE) {
        if (num != 0) {
            pack = *(const Pack<T, N>*)from;
        }
    } else {
#pragma unroll
        for (u32 index = 0; index < N; index++) {
            if (index < num) {
                pack.at[index] = from[index];
            }
        }
    }
    return pack;
}

// Writes those of N elements that are there.
template <bool WIDE, u32 N, class T>
DEVICE void store(T* to, Pack<T, N> pack, u32 num) {
    if (WIDE) {
        if (num != 0) {
            *(Pack<T, N>*)to = pack;
        }
    } else {
#pragma unroll
        for (u32 index = 0; index < N; index++) {
            if (index < num) {
                to[index] = pack.at[index];
            }
        }
    }
}

// Where a thread has its pack of N elements.
template <u32 N>
struct Place {
    u64 first;
    // How many of the elements there are.
    u32 num;
    // Whether they are accessed as one.
    bool is_wide;
};

// The pack that begins with the element `first` of so many.
template <u32 N>
DEVICE Place<N> place_at(u64 first, u64 num_elements, bool is_aligned) {
    u64 rest = first < num_elements ? num_elements - first : 0;
    u32 num = rest < N ? (u32)rest : N;
    return {first, num, is_aligned && num == N};
}

// The pack of a thread in an elementwise kernel, which has a thread for each pack of these arrays.
template <u32 N, class... T>
DEVICE Place<N> place_of_thread(u64 num_elements, const T*... arrays) {
    u64 thread = (u64)blockIdx.x * BLOCK_SIZE + threadIdx.x;
    return place_at<N>(thread * N, num_elements, are_aligned(arrays...));
}

template <u32 N, class T>
DEVICE Pack<T, N> load(const T* array, Place<N> place) {
    if (place.is_wide) {
        return load<true, N>(array + place.first, N);
    }
    return load<false, N>(array + place.first, place.num);
}

template <u32 N, class T>
DEVICE void store(T* array, Place<N> place, Pack<T, N> pack) {
    if (place.is_wide) {
        store<true, N>(array + place.first, pack, N);
    } else {
        store<false, N>(array + place.first, pack, place.num);
    }
}

template <u32 N>
DEVICE Pack<float, N> widened(Pack<element, N> pack) {
    Pack<float, N> wide;
#pragma unroll
    for (u32 index = 0; index < N; index++) {
        wide.at[index] = widened(pack.at[index]);
    }
    return wide;
}

template <u32 N>
DEVICE Pack<element, N> narrowed(Pack<float, N> pack) {
    Pack<element, N> narrow;
#pragma unroll
    for (u32 index = 0; index < N; index++) {
        narrow.at[index] = narrowed(pack.at[index]);
    }
    return narrow;
}

// Sums down the columns of a matrix: a block has two neighbouring packs of columns, the 32 bytes that memory
// is read in at least, and 128 groups of rows. Group `g` adds up the rows `g, g + 128, ...` in order. The 16
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

// Whether the thread has the total of a column, and of which.
DEVICE bool has_total(u32 width) {
    return threadIdx.x < NUM_BLOCK_COLUMNS && blockIdx.x * NUM_BLOCK_COLUMNS + threadIdx.x < width;
}

DEVICE u32 column_of_total() {
    return blockIdx.x * NUM_BLOCK_COLUMNS + threadIdx.x;
}

#endif
