// What the kernels of the CUDA queue have in common: names of types, sums over a warp, random numbers.
//
// NVRTC compiles this file and the kernels as one program for each type of elements, without any header. The
// fake GPU compiles them as C++. Products and sums are not to be contracted (NVRTC's `--fmad=false`), so
// that elementwise kernels give the host's bits; where a fused operation is wanted, `fmaf` says so.
//
// Wherever a kernel says nothing else, its blocks have 256 threads.
#ifndef PIPEZERO_COMMON
#define PIPEZERO_COMMON

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#ifdef __CUDACC__
#define DEVICE static __device__ __forceinline__
#else
#define DEVICE static inline
#endif

static const u32 WARP_SIZE = 32;
static const u32 WARPS_PER_BLOCK = 8;
static const u32 BLOCK_SIZE = WARP_SIZE * WARPS_PER_BLOCK;
static const u32 WHOLE_WARP = 0xffffffffu;

static_assert(sizeof(u32) == 4 && sizeof(u64) == 8, "the types have the sizes that their names say");

// The element of a thread in an elementwise kernel, one element per thread.
DEVICE u64 element_index() {
    return (u64)blockIdx.x * BLOCK_SIZE + threadIdx.x;
}

DEVICE u32 warp_index() {
    return threadIdx.x / WARP_SIZE;
}

DEVICE u32 lane_index() {
    return threadIdx.x % WARP_SIZE;
}

DEVICE u32 bits_of(float value) {
    u32 bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

DEVICE float float_of(u32 bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

DEVICE float negative_infinity() {
    return float_of(0xff800000u);
}

// The lowest number that is not infinite.
DEVICE float lowest_finite() {
    return float_of(0xff7fffffu);
}

// e^x as the host has it: arguments outside [-87.33, 88.37] count as the nearer end, so that the result is
// neither zero nor infinite. NaN stays, since no comparison with it is true.
DEVICE float bounded_exp(float x) {
    x = x < -87.33f ? -87.33f : x;
    x = x > 88.37f ? 88.37f : x;
    return expf(x);
}

// What `before` and `term` make of an output: a mode of 0 overwrites, 1 adds.
DEVICE float written(float before, float term, int add) {
    return add ? before + term : term;
}

// The sum over the lanes of a warp, the same bits in every lane.
DEVICE float warp_sum(float value) {
    for (u32 distance = WARP_SIZE / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(WHOLE_WARP, value, distance);
    }
    return value;
}

// The largest of the lanes' values, without those that are NaN.
DEVICE float warp_max(float value) {
    for (u32 distance = WARP_SIZE / 2; distance > 0; distance /= 2) {
        value = fmaxf(value, __shfl_xor_sync(WHOLE_WARP, value, distance));
    }
    return value;
}

// Four random numbers, or the counter that they are made of.
struct Philox {
    u32 a, b, c, d;
};

// Philox 4x32-10 (Salmon and others, SC 2011): the numbers at `counter` under a key.
DEVICE Philox philox(u32 key_a, u32 key_b, Philox counter) {
    for (int round = 0; round < 10; round++) {
        u64 first = (u64)0xd2511f53u * counter.a;
        u64 second = (u64)0xcd9e8d57u * counter.c;
        counter.a = (u32)(second >> 32) ^ counter.b ^ key_a;
        counter.b = (u32)second;
        counter.c = (u32)(first >> 32) ^ counter.d ^ key_b;
        counter.d = (u32)first;
        key_a += 0x9e3779b9u;
        key_b += 0xbb67ae85u;
    }
    return counter;
}

// What is dropped in a micro-batch, at one place of the model: 40 bytes without padding, an argument of
// kernels.
struct DropoutMasks {
    u64 seed;
    u64 step;
    // The place of the micro-batch's first sequence in the step's global batch.
    u64 first_sequence;
    u32 place;
    // An element is dropped if its number is below this: 0 drops nothing.
    u32 threshold;
    // What other elements are multiplied by.
    float scale;
    // T: tokens of each sequence.
    u32 seq_length;
};

static_assert(sizeof(DropoutMasks) == 40, "the host lays the argument out in the same way");

// The key of a sequence's masks.
struct SequenceKey {
    u32 a, b;
};

// The key of the micro-batch's sequence of this index.
DEVICE SequenceKey sequence_key(const DropoutMasks& masks, u64 sequence_index) {
    u64 sequence = masks.first_sequence + sequence_index;
    Philox counter = {(u32)masks.step, (u32)(masks.step >> 32), (u32)sequence, (u32)(sequence >> 32)};
    Philox numbers = philox((u32)masks.seed, (u32)(masks.seed >> 32), counter);
    return {numbers.a, numbers.b};
}

// Whether an element with this number is dropped.
DEVICE bool is_dropped(const DropoutMasks& masks, u32 number) {
    return number < masks.threshold;
}

// What one element of a row is multiplied by. Of each 64 elements, those 16 apart share a counter.
DEVICE float element_factor(const DropoutMasks& masks, SequenceKey key, u32 position, u32 head, u32 element) {
    Philox counter = {16 * (element / 64) + element % 16, position, head, masks.place};
    Philox numbers = philox(key.a, key.b, counter);
    u32 low = element / 16 % 2 == 0 ? numbers.a : numbers.b;
    u32 high = element / 16 % 2 == 0 ? numbers.c : numbers.d;
    return is_dropped(masks, element / 32 % 2 == 0 ? low : high) ? 0.0f : masks.scale;
}

#endif
