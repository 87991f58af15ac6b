#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
#endif

// Looking up rows of a table by position.
//
// Legend: B sequences, T tokens each, C columns; `y, dy: [B, T, C]`, `position_table: [at least T, C]`.
// `num_sequence_elements` is `T C`.

// `y[b, t] += position_table[t]`, with a thread per element of `y`.
extern "C" __global__ void __launch_bounds__(256) add_positions(
    const element* __restrict__ position_table,
    element* __restrict__ y,
    u64 num_sequence_elements,
    u64 num_elements
) {
    u64 index = element_index();
    if (index < num_elements) {
        float position = widened(position_table[index % num_sequence_elements]);
        y[index] = narrowed(widened(y[index]) + position);
    }
}

// `dposition_table[t] += dy[b, t]`, sequence by sequence, the host's bits; a thread per element of the table.
// Where it is overwritten, positions from T on become zero.
extern "C" __global__ void __launch_bounds__(256) positions_backward(
    const element* __restrict__ dy,
    float* __restrict__ dposition_table,
    u64 num_sequence_elements,
    u64 num_sequences,
    u64 num_table_elements,
    int add
) {
    u64 index = element_index();
    if (index >= num_table_elements) {
        return;
    }
    float sum = add ? dposition_table[index] : 0.0f;
    if (index < num_sequence_elements) {
        for (u64 sequence = 0; sequence < num_sequences; sequence++) {
            sum += widened(dy[sequence * num_sequence_elements + index]);
        }
    }
    dposition_table[index] = sum;
}
