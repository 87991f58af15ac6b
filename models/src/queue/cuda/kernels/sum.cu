#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "wide.cuh"
#endif

// Sums of gradients, element by element: a thread per pack.

// `sum += term`
extern "C" __global__ void __launch_bounds__(256)
add(const float* __restrict__ term, float* __restrict__ sum, u64 num_elements) {
    auto place = place_of_thread<NUM_PACK_FLOATS>(num_elements, term, sum);
    Pack<float, NUM_PACK_FLOATS> terms = load(term, place);
    Pack<float, NUM_PACK_FLOATS> sums = load(sum, place);
#pragma unroll
    for (u32 index = 0; index < NUM_PACK_FLOATS; index++) {
        sums.at[index] += terms.at[index];
    }
    store(sum, place, sums);
}

// What is added up, in order, one of them being the output: an argument of the kernel.
static const u32 NUM_SUM_TERMS_MAX = 64;
struct SumTerms {
    const float* terms[NUM_SUM_TERMS_MAX];
    u64 num_terms;
};

static_assert(sizeof(SumTerms) == 8 * 65, "the host lays the argument out in the same way");

// Terms that a thread reads before it adds the first of them.
static const u32 NUM_TERM_READS = 4;

// The sum of a thread's packs, in the order of the terms.
template <bool WIDE>
DEVICE Pack<float, NUM_PACK_FLOATS> sum_of_terms(const SumTerms& terms, Place<NUM_PACK_FLOATS> place) {
    auto sums = load<WIDE, NUM_PACK_FLOATS>(terms.terms[0] + place.first, place.num);
    for (u32 first = 1; first < terms.num_terms; first += NUM_TERM_READS) {
        Pack<float, NUM_PACK_FLOATS> packs[NUM_TERM_READS];
#pragma unroll
        for (u32 read = 0; read < NUM_TERM_READS; read++) {
            bool is_term = first + read < terms.num_terms;
            const float* term = terms.terms[is_term ? first + read : 0];
            packs[read] = load<WIDE, NUM_PACK_FLOATS>(term + place.first, is_term ? place.num : 0);
        }
        // Zero is not added for a term that there is not: it would make 0 of -0.
#pragma unroll
        for (u32 index = 0; index < NUM_TERM_READS * NUM_PACK_FLOATS; index++) {
            u32 read = index / NUM_PACK_FLOATS;
            u32 column = index % NUM_PACK_FLOATS;
            float sum = sums.at[column] + packs[read].at[column];
            sums.at[column] = first + read < terms.num_terms ? sum : sums.at[column];
        }
    }
    return sums;
}

// `out = terms[0] + terms[1] + ...`, in this order.
extern "C" __global__ void __launch_bounds__(256) sum_in_order(SumTerms terms, float* out, u64 num_elements) {
    auto place = place_of_thread<NUM_PACK_FLOATS>(num_elements, out);
    for (u32 term = 0; term < terms.num_terms; term++) {
        place.is_wide = place.is_wide && are_aligned(terms.terms[term]);
    }
    store(out, place, place.is_wide ? sum_of_terms<true>(terms, place) : sum_of_terms<false>(terms, place));
}
