#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
#endif

// What a warp does as one on tensor cores, for elements of 16 bits, and copies to shared memory that go on
// while the thread does something else. Instructions of sm_80 in inline PTX on a GPU; elsewhere the
// fake GPU's functions, which do what the PTX ISA says.
//
// A matrix of 16 bits lies in the registers of a warp in parts of 8x8: lane `4 r + c` has the elements 2 c
// and 2 c + 1 of row `r`, the first in the lower half of its register. A matrix of f32 is in parts of 16x8:
// the lane has these two elements of row `r`, then these two of row `r + 8`.
#if !defined(ELEMENT_F32) && !defined(PIPEZERO_WARP)
#define PIPEZERO_WARP

// The elements in 16 bytes, which are copied and loaded as one.
static const u32 CHUNK_ELEMENTS = 8;

#ifdef __CUDACC__

// Where something lies in shared memory, as the number that instructions take.
typedef u32 SharedAddress;

DEVICE SharedAddress shared_address(const void* pointer) {
    return (u32)__cvta_generic_to_shared(pointer);
}

// `sums[16, 8] += left[16, 16] right[16, 8]`. The parts of `left` are: above left, below left, above right,
// below right. Those of `right` are upper and lower, each transposed. Volatile, since it must not be moved
// into a branch: all lanes have to be there.
DEVICE void add_product(float* sums, const u32* left, u32 right_upper, u32 right_lower) {
#ifdef ELEMENT_BF16
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
#else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
#endif
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right_upper), "r"(right_lower));
}

// Four parts of 8x8 from shared memory: lane `8 p + r` says where row `r` of part `p` is, 16 bytes that are
// aligned to 16.
DEVICE void load_parts(u32* parts, SharedAddress row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
        : "=r"(parts[0]), "=r"(parts[1]), "=r"(parts[2]), "=r"(parts[3])
        : "r"(row) : "memory");
}

// The same, and each part is transposed.
DEVICE void load_transposed_parts(u32* parts, SharedAddress row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
        : "=r"(parts[0]), "=r"(parts[1]), "=r"(parts[2]), "=r"(parts[3])
        : "r"(row) : "memory");
}

// Starts a copy of 16 bytes to shared memory, both aligned to 16. Where nothing is to be read, zeros are
// written.
DEVICE void start_copy(element* to, const element* from, bool is_inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        :: "r"(shared_address(to)), "l"(from), "r"(is_inside ? 16 : 0) : "memory");
}

// The same for one number.
DEVICE void start_copy(float* to, const float* from, bool is_inside) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
        :: "r"(shared_address(to)), "l"(from), "r"(is_inside ? 4 : 0) : "memory");
}

// The thread's copies that were started since the last call become a group, which may be empty.
DEVICE void close_copy_group() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until all of the thread's groups but the newest `OPEN` have arrived. Other threads see them after the
// next barrier.
template <int OPEN>
DEVICE void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" :: "n"(OPEN) : "memory");
}

// Two numbers in 16 bits each, to nearest even, the first in the lower half.
DEVICE u32 packed(float first, float second) {
    u32 both;
#ifdef ELEMENT_BF16
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
#else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
#endif
    return both;
}

// 2^x within two units in the last place; below the smallest normal number it is 0.
DEVICE float power_of_two(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

// Two neighbouring elements of memory, the first of which is aligned to 4 bytes.
DEVICE u32 load_pair(const element* from) {
    return *(const u32*)from;
}

DEVICE void put_pair(element* to, float first, float second) {
    *(u32*)to = packed(first, second);
}

#else

typedef u64 SharedAddress;

DEVICE SharedAddress shared_address(const void* pointer) {
    return (u64)pointer;
}

DEVICE float widened_bits(u16 bits) {
    element value;
    value.bits = bits;
    return widened(value);
}

DEVICE void add_product(float* sums, const u32* left, u32 right_upper, u32 right_lower) {
    fake_gpu::add_product(sums, left, right_upper, right_lower, widened_bits);
}

DEVICE void load_parts(u32* parts, SharedAddress row) {
    fake_gpu::load_parts(parts, (const void*)row, false);
}

DEVICE void load_transposed_parts(u32* parts, SharedAddress row) {
    fake_gpu::load_parts(parts, (const void*)row, true);
}

DEVICE void start_copy(element* to, const element* from, bool is_inside) {
    fake_gpu::start_copy(to, from, 16, is_inside ? 16 : 0);
}

DEVICE void start_copy(float* to, const float* from, bool is_inside) {
    fake_gpu::start_copy(to, from, 4, is_inside ? 4 : 0);
}

DEVICE void close_copy_group() {
    fake_gpu::close_copy_group();
}

template <int OPEN>
DEVICE void wait_for_copies() {
    fake_gpu::wait_for_copies(OPEN);
}

DEVICE u32 packed(float first, float second) {
    return narrowed(first).bits | (u32)narrowed(second).bits << 16;
}

DEVICE float power_of_two(float x) {
    float power = exp2f(x);
    return power < 0x1p-126f ? 0.0f : power;
}

DEVICE u32 load_pair(const element* from) {
    return from[0].bits | (u32)from[1].bits << 16;
}

DEVICE void put_pair(element* to, float first, float second) {
    to[0] = narrowed(first);
    to[1] = narrowed(second);
}

#endif

DEVICE float first_of_pair(u32 pair) {
    element value;
    value.bits = (u16)pair;
    return widened(value);
}

DEVICE float second_of_pair(u32 pair) {
    element value;
    value.bits = (u16)(pair >> 16);
    return widened(value);
}

#endif
