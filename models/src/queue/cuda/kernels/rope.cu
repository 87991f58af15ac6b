#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "documents.cuh"
#include "element.cuh"
#include "heads.cuh"
#endif

// Rotary position embeddings (arXiv:2104.09864): element `i` of a head's first half and element `i` of its
// second are a pair, which is turned by `position * frequency[i]`. See heads.cuh for where heads lie.

// The pairs of the largest heads.
static const u32 NUM_ROPE_PAIRS_MAX = 128;
// Heads whose pairs a thread reads together.
static const u32 NUM_ROPE_READS = 4;

// By which angles heads are turned: an argument of the kernel.
struct RopeAngles {
    // Radians per position, for each pair.
    float frequencies[NUM_ROPE_PAIRS_MAX];
    // What sines and cosines are multiplied by. Where heads are turned back, the first has the other sign.
    float sine_scale, cosine_scale;
};

static_assert(sizeof(RopeAngles) == 520, "the host lays the argument out in the same way");

// The heads of queries and keys are turned in place, by their positions in their documents (documents.cuh),
// with a thread for each pair of a token: it computes the sine and the cosine once for all heads. An angle is
// rounded to f32, and grows to thousands: the functions have to be those that reduce it exactly.
extern "C" __global__ void __launch_bounds__(256)
rope(
    RopeAngles angles, const u32* __restrict__ document_starts, element* __restrict__ qkv, AttentionSizes sizes,
    u64 num_threads
) {
    u64 thread = element_index();
    if (thread >= num_threads) {
        return;
    }
    u32 num_pairs = sizes.head_size / 2;
    u32 pair = thread % num_pairs;
    u64 token = thread / num_pairs;
    u32 position = token % sizes.seq_length - document_start(document_starts, token);
    float sine, cosine;
    sincosf((float)position * angles.frequencies[pair], &sine, &cosine);
    sine *= angles.sine_scale;
    cosine *= angles.cosine_scale;
    element* at = qkv + token * num_qkv_heads(sizes) * sizes.head_size + pair;
    u32 num_heads = sizes.num_heads + sizes.num_kv_heads;
    for (u32 first = 0; first < num_heads; first += NUM_ROPE_READS) {
        float left[NUM_ROPE_READS], right[NUM_ROPE_READS];
#pragma unroll
        for (u32 read = 0; read < NUM_ROPE_READS; read++) {
            const element* head = at + (first + read) * sizes.head_size;
            bool is_there = first + read < num_heads;
            left[read] = is_there ? widened(head[0]) : 0.0f;
            right[read] = is_there ? widened(head[num_pairs]) : 0.0f;
        }
#pragma unroll
        for (u32 read = 0; read < NUM_ROPE_READS; read++) {
            element* head = at + (first + read) * sizes.head_size;
            if (first + read < num_heads) {
                head[0] = narrowed(left[read] * cosine - right[read] * sine);
                head[num_pairs] = narrowed(right[read] * cosine + left[read] * sine);
            }
        }
    }
}
