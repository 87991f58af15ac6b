// The words of CUDA C++ that kernels use, for a host's compiler.
//
// Kernels are compiled as they are; what only NVRTC knows is defined here. Shared variables are static, since
// one block runs at a time, and lie in a section of their own (`shared.ld`) that is poisoned between blocks.
#pragma once

#include <math.h>
#include <string.h>

#include <algorithm>
#include <type_traits>

#include "faults.h"
#include "fibers.h"
#include "warp_functions.h"

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
#define __shared__ static

#define threadIdx (fake_gpu::block.current->thread)
#define blockIdx (fake_gpu::block.index)
#define blockDim (fake_gpu::block.size)
#define gridDim (fake_gpu::block.grid)
#define warpSize 32

struct alignas(8) float2 { float x, y; };
struct float3 { float x, y, z; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };

inline float2 make_float2(float x, float y) { return {x, y}; }
inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }

// Barriers. Where the kernel calls them is kept, so that a barrier that never opens can be named.

#define FAKE_GPU_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(FAKE_GPU_SITE) {
    fake_gpu::wait_for_block({file, line});
}

inline void __syncwarp(unsigned mask = ~0u, FAKE_GPU_SITE) {
    fake_gpu::wait_for_lanes(mask, {file, line});
}

inline void __threadfence() {}
inline void __threadfence_block() {}

namespace fake_gpu {

// The value of another lane. Lanes that are not there or not in the mask have undefined values in CUDA, ones
// here.
template <class T>
T exchange(unsigned mask, T value, unsigned from_lane, Site site) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles are of 4 or 8 bytes");
    unsigned number = block.current->number;
    memcpy(&block.given[number], &value, sizeof value);
    wait_for_lanes(mask, site);
    unsigned is_there = mask & block.warps[number / LANES].existing;
    T found;
    memset(&found, 0xff, sizeof found);
    if (is_there >> from_lane & 1) {
        memcpy(&found, &block.received[number / LANES * LANES + from_lane], sizeof found);
    }
    return found;
}

// The lane that `offset` says, of the part of the warp that the own lane is in; the own lane where that is
// outside.
inline unsigned lane_or_own(int lane, int width) {
    int own = int(block.current->number % LANES);
    return unsigned(lane >= own / width * width && lane < own / width * width + width ? lane : own);
}

inline int own_lane() { return int(block.current->number % LANES); }

}

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, FAKE_GPU_SITE) {
    int first = fake_gpu::own_lane() / width * width;
    return fake_gpu::exchange(mask, value, unsigned(first + (lane & (width - 1))), {file, line});
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, FAKE_GPU_SITE) {
    // CUDA C++ Programming Guide, "Warp Shuffle Functions": a lane of a part further on keeps its own value.
    int lane = fake_gpu::own_lane() ^ lanes;
    int end = fake_gpu::own_lane() / width * width + width;
    unsigned from = unsigned(lane < end ? lane : fake_gpu::own_lane());
    return fake_gpu::exchange(mask, value, from, {file, line});
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned lanes, int width = 32, FAKE_GPU_SITE) {
    unsigned from = fake_gpu::lane_or_own(fake_gpu::own_lane() + int(lanes), width);
    return fake_gpu::exchange(mask, value, from, {file, line});
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned lanes, int width = 32, FAKE_GPU_SITE) {
    unsigned from = fake_gpu::lane_or_own(fake_gpu::own_lane() - int(lanes), width);
    return fake_gpu::exchange(mask, value, from, {file, line});
}

inline unsigned __ballot_sync(unsigned mask, int predicate, FAKE_GPU_SITE) {
    using namespace fake_gpu;
    unsigned number = block.current->number, found = 0;
    block.given[number] = predicate != 0;
    wait_for_lanes(mask, {file, line});
    for (unsigned lane = 0; lane < LANES; lane++) {
        bool is_there = (mask & block.warps[number / LANES].existing) >> lane & 1;
        bool is_true = block.received[number / LANES * LANES + lane] != 0;
        found |= is_there && is_true ? 1u << lane : 0u;
    }
    return found;
}

inline int __any_sync(unsigned mask, int predicate, FAKE_GPU_SITE) {
    return __ballot_sync(mask, predicate, file, line) != 0;
}

inline int __all_sync(unsigned mask, int predicate, FAKE_GPU_SITE) {
    return __ballot_sync(mask, !predicate, file, line) == 0;
}

// Atomic operations. One thread runs at a time, so they are plain; sometimes others get their turn first.

namespace fake_gpu {

template <class T, class F>
T change_atomically(T* at, F changed) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "atomic operations are of 4 or 8 bytes");
    if ((uintptr_t)at % sizeof(T) != 0) {
        stop_kernel("an atomic operation on an address that is not aligned", block.current->site);
    }
    if (block.random.below(16) == 0) {
        stop_fiber(FiberState::Ready);
    }
    T before = *at;
    *at = changed(before);
    return before;
}

template <class T>
using Operand = std::type_identity_t<T>;

}

template <class T>
T atomicAdd(T* at, fake_gpu::Operand<T> value) {
    return fake_gpu::change_atomically(at, [=](T before) { return T(before + value); });
}
template <class T>
T atomicOr(T* at, fake_gpu::Operand<T> value) {
    return fake_gpu::change_atomically(at, [=](T before) { return T(before | value); });
}
template <class T>
T atomicAnd(T* at, fake_gpu::Operand<T> value) {
    return fake_gpu::change_atomically(at, [=](T before) { return T(before & value); });
}
template <class T>
T atomicMax(T* at, fake_gpu::Operand<T> value) {
    static_assert(std::is_integral_v<T>, "CUDA has no atomicMax of floating-point numbers");
    return fake_gpu::change_atomically(at, [=](T before) { return std::max(before, value); });
}
template <class T>
T atomicMin(T* at, fake_gpu::Operand<T> value) {
    static_assert(std::is_integral_v<T>, "CUDA has no atomicMin of floating-point numbers");
    return fake_gpu::change_atomically(at, [=](T before) { return std::min(before, value); });
}
template <class T>
T atomicExch(T* at, fake_gpu::Operand<T> value) {
    return fake_gpu::change_atomically(at, [=](T) { return value; });
}
template <class T>
T atomicCAS(T* at, fake_gpu::Operand<T> expected, fake_gpu::Operand<T> value) {
    return fake_gpu::change_atomically(at, [=](T before) { return before == expected ? value : before; });
}

// Numbers. The host's functions round as they do: fast ones of a GPU are less exact.

#define __expf(x) expf(x)
#define __logf(x) logf(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __powf(x, y) powf(x, y)

template <class To, class From>
To fake_gpu_bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

inline unsigned __float_as_uint(float x) { return fake_gpu_bits_as<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return fake_gpu_bits_as<float>(x); }
inline int __float_as_int(float x) { return fake_gpu_bits_as<int>(x); }
inline float __int_as_float(int x) { return fake_gpu_bits_as<float>(x); }
inline long long __double_as_longlong(double x) { return fake_gpu_bits_as<long long>(x); }
inline double __longlong_as_double(long long x) { return fake_gpu_bits_as<double>(x); }

// Out of range gives the nearest, and NaN gives 0.
inline unsigned __float2uint_rn(float x) {
    return !(x > 0) ? 0 : x >= 0x1p32f ? ~0u : (unsigned)nearbyintf(x);
}
inline int __float2int_rn(float x) {
    return x != x ? 0 : x >= 0x1p31f ? 0x7fffffff : x < -0x1p31f ? (int)0x80000000 : (int)nearbyintf(x);
}
inline float __uint2float_rn(unsigned x) { return (float)x; }
inline float __int2float_rn(int x) { return (float)x; }

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline float __fsqrt_rn(float x) { return sqrtf(x); }

inline unsigned __umulhi(unsigned x, unsigned y) { return unsigned((unsigned long long)x * y >> 32); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }

template <class T>
T __ldg(const T* at) {
    return *at;
}

template <class T>
T min(T x, fake_gpu::Operand<T> y) {
    return y < x ? y : x;
}
template <class T>
T max(T x, fake_gpu::Operand<T> y) {
    return x < y ? y : x;
}
