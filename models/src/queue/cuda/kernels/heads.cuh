#ifndef __CUDACC_RTC__
#include "common.cuh"
#endif

// Where heads lie. Legend: T tokens of a sequence, H heads of queries and G of keys and of values, all of size
// D. `qkv: [N, H + 2 G, D]` has every token's queries, then its keys, then its values. Neighbouring heads of
// queries, H / G of them, share one of keys and values (grouped queries, arXiv:2305.13245).
#ifndef PIPEZERO_HEADS
#define PIPEZERO_HEADS

// The sizes of an attention, 16 bytes without padding: an argument of kernels.
struct AttentionSizes {
    // T.
    u32 seq_length;
    // H.
    u32 num_heads;
    // G.
    u32 num_kv_heads;
    // D.
    u32 head_size;
};

static_assert(sizeof(AttentionSizes) == 16, "the host lays the argument out in the same way");

// Heads of a token in `qkv`.
DEVICE u32 num_qkv_heads(const AttentionSizes& sizes) {
    return sizes.num_heads + 2 * sizes.num_kv_heads;
}

#endif
