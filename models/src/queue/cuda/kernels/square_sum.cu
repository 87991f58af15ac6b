#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "wide.cuh"
#endif

// Adds squares to an exact sum: the integer of 608 bits that `kernels/square_sum` describes, the same words
// as on the host whatever the order in which blocks come.
//
// The square of an f32 is the square of its mantissa, 48 bits, at a place that its exponent says. A block
// adds up squares in a bin for each exponent and then adds the bins to the words. Additions of integers are
// atomic, and each block carries what overflows a word into the next: once all have done so, the words are
// the sum's only form.

static const u32 NUM_SUM_WORDS = 20;
// The word that is not 0 when an element was infinite or NaN.
static const u32 NON_FINITE_WORD = NUM_SUM_WORDS - 1;
static const u32 NUM_EXPONENTS = 256;
// Copies of the bins, for neighbouring lanes: gradients share few exponents, and additions to one place wait
// for each other.
static const u32 NUM_BIN_COPIES = 8;
// 16 bits each of a square: a word of 32 bits holds 2^16 of them.
static const u32 NUM_PIECES = 3;
static const u32 NUM_BIN_WORDS = NUM_EXPONENTS * NUM_PIECES * NUM_BIN_COPIES;
// Elements of a block. The host launches one block for so many.
static const u32 NUM_SQUARES_PER_BLOCK = 1 << 15;

static_assert(NUM_SQUARES_PER_BLOCK <= 1 << 16, "so many pieces of 16 bits are what a word of 32 bits holds");
static_assert(NUM_EXPONENTS == BLOCK_SIZE, "each thread folds one bin");

DEVICE void add_to_bin(u32* bins, float element) {
    u32 bits = bits_of(element);
    u32 exponent = bits >> 23 & 0xff;
    u64 mantissa = (bits & 0x7fffffu) | (exponent != 0 ? 0x800000u : 0u);
    u64 square = mantissa * mantissa;
    u32* bin = bins + exponent * NUM_PIECES * NUM_BIN_COPIES + threadIdx.x % NUM_BIN_COPIES;
    for (u32 piece = 0; piece < NUM_PIECES; piece++) {
        atomicAdd(bin + piece * NUM_BIN_COPIES, (u32)(square >> 16 * piece) & 0xffffu);
    }
}

// The sum of all copies of an exponent's bin: at most 2^16 squares, so below 2^64.
DEVICE u64 total_of_bin(const u32* bins, u32 exponent) {
    u64 total = 0;
    for (u32 piece = 0; piece < NUM_PIECES; piece++) {
        for (u32 copy = 0; copy < NUM_BIN_COPIES; copy++) {
            total += (u64)bins[(exponent * NUM_PIECES + piece) * NUM_BIN_COPIES + copy] << 16 * piece;
        }
    }
    return total;
}

// Adds a digit to a word, and carries.
DEVICE void add_to_word(u32* words, u32 word, u32 digit) {
    while (digit != 0 && word < NON_FINITE_WORD) {
        u32 before = atomicAdd(words + word, digit);
        digit = before + digit < before ? 1 : 0;
        word++;
    }
}

// Adds the total of squared mantissas of elements with this biased exponent, which is finite.
DEVICE void add_total(u32* words, u64 total, u32 exponent) {
    // Subnormals (exponent 0) have the place of exponent 1 and no leading 1.
    u32 place = exponent == 0 ? 0 : 2 * (exponent - 1);
    u32 shift = place % 32;
    u64 low = total << shift;
    u64 high = shift == 0 ? 0 : total >> (64 - shift);
    add_to_word(words, place / 32, (u32)low);
    add_to_word(words, place / 32 + 1, (u32)(low >> 32));
    add_to_word(words, place / 32 + 2, (u32)high);
}

// Adds a thread's share of the first `num` elements of a block. `WIDE` says that the block has all of its
// elements, and that packs are read as one.
template <bool WIDE>
DEVICE void add_to_bins(u32* bins, const float* __restrict__ x, u32 num) {
    u32 end = WIDE ? NUM_SQUARES_PER_BLOCK : num;
#pragma unroll 4
    for (u32 place = threadIdx.x * NUM_PACK_FLOATS; place < end; place += BLOCK_SIZE * NUM_PACK_FLOATS) {
        u32 num_there = WIDE ? NUM_PACK_FLOATS : num - place;
        auto pack = load<WIDE, NUM_PACK_FLOATS>(x + place, num_there);
#pragma unroll
        for (u32 index = 0; index < NUM_PACK_FLOATS; index++) {
            if (is_there<WIDE>(index, num_there)) {
                add_to_bin(bins, pack.at[index]);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
add_squares(const float* __restrict__ x, u32* words, u64 num_elements) {
    __shared__ u32 bins[NUM_BIN_WORDS];
    for (u32 word = threadIdx.x; word < NUM_BIN_WORDS; word += BLOCK_SIZE) {
        bins[word] = 0;
    }
    __syncthreads();
    u64 start = (u64)blockIdx.x * NUM_SQUARES_PER_BLOCK;
    u64 rest = num_elements - start;
    if (rest >= NUM_SQUARES_PER_BLOCK && are_aligned(x)) {
        add_to_bins<true>(bins, x + start, NUM_SQUARES_PER_BLOCK);
    } else {
        add_to_bins<false>(bins, x + start, rest < NUM_SQUARES_PER_BLOCK ? (u32)rest : NUM_SQUARES_PER_BLOCK);
    }
    __syncthreads();
    u64 total = total_of_bin(bins, threadIdx.x);
    if (threadIdx.x < NUM_EXPONENTS - 1) {
        add_total(words, total, threadIdx.x);
    } else if (total != 0) {
        // An infinity's mantissa has its leading 1, so this bin is not 0 after any infinity or NaN.
        atomicOr(words + NON_FINITE_WORD, 1u);
    }
}
