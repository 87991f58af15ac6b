#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "documents.cuh"
#include "element.cuh"
#endif

// Looking up rows of a table by position.
//
// Legend: B sequences, T tokens each, C columns; `y, dy: [B, T, C]`, `position_table: [at least T, C]`,
// `document_starts: [B, T]` or null, see documents.cuh. A token's position is counted from where its document
// begins.

// `y[b, t] += position_table[position]`, with a thread per element of `y`.
extern "C" __global__ void __launch_bounds__(256) add_positions(
    const element* __restrict__ position_table,
    const u32* __restrict__ document_starts,
    element* __restrict__ y,
    u32 seq_length,
    u32 width,
    u64 num_elements
) {
    u64 index = element_index();
    if (index < num_elements) {
        u64 in_sequence = index % ((u64)seq_length * width);
        u64 before = (u64)document_start(document_starts, index / width) * width;
        float position = widened(position_table[in_sequence - before]);
        y[index] = narrowed(widened(y[index]) + position);
    }
}

// `dposition_table[position] += dy[b, t]`, document by document, the host's bits; a thread per element of the
// table. Where it is overwritten, positions that no token has become zero.
extern "C" __global__ void __launch_bounds__(256) positions_backward(
    const element* __restrict__ dy,
    const u32* __restrict__ document_starts,
    float* __restrict__ dposition_table,
    u32 seq_length,
    u32 width,
    u32 num_sequences,
    u64 num_table_elements,
    int add
) {
    u64 index = element_index();
    if (index >= num_table_elements) {
        return;
    }
    float sum = add ? dposition_table[index] : 0.0f;
    u64 position = index / width;
    for (u32 sequence = 0; sequence < num_sequences; sequence++) {
        u64 first_token = (u64)sequence * seq_length;
        const u32* starts = starts_of_row(document_starts, first_token);
        u32 start = 0;
        while (start < seq_length) {
            u32 end = document_end(starts, start, seq_length);
            if (start + position < end) {
                sum += widened(dy[(first_token + start) * width + index]);
            }
            start = end;
        }
    }
    dposition_table[index] = sum;
}
