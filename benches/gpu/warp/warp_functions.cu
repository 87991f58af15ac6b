#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
#include "warp.cuh"
#endif

// Kernels that run the functions of warp.cuh, for benches/gpu/warp_functions.py. They are no part of pipezero.
//
// Each thread reads its words of `inputs` and writes its words of `results`. The script knows how many there
// are and what they mean.
#if !defined(ELEMENT_F32)

// 16 bytes of shared memory.
struct alignas(16) Row {
    u32 words[4];
};

// Inputs: the thread's registers of `left` (4), of `right` (2) and of the sums (4). Results: the sums (4).
extern "C" __global__ void test_add_product(u32* results, const u32* inputs) {
    const u32* own = inputs + 10 * element_index();
    float sums[4];
    for (u32 index = 0; index < 4; index++) {
        sums[index] = float_of(own[6 + index]);
    }
    add_product(sums, own, own[4], own[5]);
    for (u32 index = 0; index < 4; index++) {
        results[4 * element_index() + index] = bits_of(sums[index]);
    }
}

// Inputs: a row of shared memory (4), and which thread's row the lane gives to the instructions. Results: the
// parts (4), and the transposed parts (4).
extern "C" __global__ void test_load_parts(u32* results, const u32* inputs) {
    __shared__ Row rows[BLOCK_SIZE];
    const u32* own = inputs + 5 * element_index();
    for (u32 word = 0; word < 4; word++) {
        rows[threadIdx.x].words[word] = own[word];
    }
    __syncthreads();
    u32 parts[8];
    load_parts(parts, shared_address(&rows[own[4]]));
    load_transposed_parts(parts + 4, shared_address(&rows[own[4]]));
    for (u32 index = 0; index < 8; index++) {
        results[8 * element_index() + index] = parts[index];
    }
}

// Inputs: two numbers, a pair of elements, an exponent. Results: what each function makes of them.
extern "C" __global__ void test_pairs(u32* results, const u32* inputs) {
    const u32* own = inputs + 4 * element_index();
    u32* to = results + 6 * element_index();
    to[0] = packed(float_of(own[0]), float_of(own[1]));
    put_pair((element*)(to + 1), float_of(own[0]), float_of(own[1]));
    to[2] = load_pair((const element*)(own + 2));
    to[3] = bits_of(first_of_pair(own[2]));
    to[4] = bits_of(second_of_pair(own[2]));
    to[5] = bits_of(power_of_two(float_of(own[3])));
}

// `inputs` are 16 bytes for each thread of all blocks. `places` says for each thread which of these it copies,
// and which number of their first quarter; where its highest bit is set, nothing must be read. Results: the 16
// bytes (4) and the number that a thread of another warp has copied.
extern "C" __global__ void test_copies(u32* results, const u32* inputs, const u32* places) {
    __shared__ Row rows[BLOCK_SIZE];
    __shared__ float numbers[BLOCK_SIZE];
    // No zeros where zeros are to be written.
    for (u32 word = 0; word < 4; word++) {
        rows[threadIdx.x].words[word] = 0xffffffffu;
    }
    numbers[threadIdx.x] = -1.0f;
    __syncthreads();
    bool is_inside = places[element_index()] >> 31 == 0;
    u64 place = places[element_index()] & 0x7fffffffu;
    start_copy((element*)&rows[threadIdx.x], (const element*)(inputs + 4 * place), is_inside);
    close_copy_group();
    start_copy(&numbers[threadIdx.x], (const float*)(inputs + place), is_inside);
    close_copy_group();
    u32 other = (threadIdx.x + WARP_SIZE + 1) % BLOCK_SIZE;
    u32* to = results + 5 * element_index();
    wait_for_copies<1>();
    __syncthreads();
    for (u32 word = 0; word < 4; word++) {
        to[word] = rows[other].words[word];
    }
    wait_for_copies<0>();
    __syncthreads();
    to[4] = bits_of(numbers[other]);
}

#endif
