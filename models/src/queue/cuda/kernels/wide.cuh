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

// How many elements of a row there are from `first` on; none where `first` is beyond the last.
DEVICE u32 num_from(u32 first, u32 width) {
    return first < width ? width - first : 0;
}

// Whether a pack has the element `index`, where `num` elements of the row are left from the pack's first on.
// `WIDE` says that the pack has all of its elements or none.
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

#endif
