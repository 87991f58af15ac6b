#ifndef __CUDACC_RTC__
#include "common.cuh"
#endif

// Conversions between f32, bf16 and f16, element by element: exact to a wider type, to nearest even to a
// narrower one, and NaN stays NaN. All in integers as on the host, so that the bits are the same, payloads of
// NaN included.

// Exponent bits of an f32; what is above them but for the sign is NaN.
static const u32 INFINITE_BITS = 0x7f800000u;
// What an f16's exponent is short of an f32's, in the f32's place.
static const u32 F16_REBIAS = (127 - 15) << 23;

DEVICE float widen_bf16(u16 bits) {
    return float_of((u32)bits << 16);
}

DEVICE u16 narrow_bf16(float value) {
    u32 bits = bits_of(value);
    // Adding just below half of the last place that stays, and one more where that place is odd, carries into
    // it whenever the nearest value, of two the even one, is the next; a carry beyond the largest makes
    // infinity.
    u32 rounded = bits + 0x7fff + (bits >> 16 & 1);
    bool is_nan = (bits & 0x7fffffffu) > INFINITE_BITS;
    return (u16)((is_nan ? bits | 0x400000u : rounded) >> 16);
}

DEVICE float widen_f16(u16 bits) {
    u32 sign = (u32)(bits & 0x8000) << 16;
    u32 magnitude = (u32)(bits & 0x7fff) << 13;
    u32 exponent = magnitude & 0x7c00u << 13;
    if (exponent == 0x7c00u << 13) {
        return float_of(sign | magnitude | INFINITE_BITS);
    }
    if (exponent != 0) {
        return float_of(sign | (magnitude + F16_REBIAS));
    }
    // A subnormal: with the smallest normal exponent put in, it is that power of two too large.
    u32 smallest_normal = F16_REBIAS + (1u << 23);
    float subnormal = float_of(magnitude + smallest_normal) - float_of(smallest_normal);
    return float_of(sign | bits_of(subnormal));
}

DEVICE u16 narrow_f16(float value) {
    u32 sign = bits_of(value) & 0x80000000u;
    u32 magnitude = bits_of(value) ^ sign;
    u32 narrow;
    if (magnitude > INFINITE_BITS) {
        narrow = 0x7e00u | (magnitude >> 13 & 0x3ff);
    } else if (magnitude >= (127u + 16) << 23) {
        narrow = 0x7c00u;
    } else if (magnitude < 113u << 23) {
        // Below the smallest normal f16, adding a number whose last place is the smallest subnormal rounds to
        // that.
        u32 rounder = (127u - 15 + 23 - 10 + 1) << 23;
        narrow = bits_of(float_of(magnitude) + float_of(rounder)) - rounder;
    } else {
        // As for bf16; a carry beyond 65504 makes infinity.
        narrow = (magnitude - F16_REBIAS + 0xfff + (magnitude >> 13 & 1)) >> 13;
    }
    return (u16)(narrow | sign >> 16);
}

extern "C" __global__ void __launch_bounds__(256)
f32_to_bf16(const float* __restrict__ x, u16* __restrict__ y, u64 num_elements) {
    u64 index = element_index();
    if (index < num_elements) {
        y[index] = narrow_bf16(x[index]);
    }
}

extern "C" __global__ void __launch_bounds__(256)
f32_to_f16(const float* __restrict__ x, u16* __restrict__ y, u64 num_elements) {
    u64 index = element_index();
    if (index < num_elements) {
        y[index] = narrow_f16(x[index]);
    }
}

extern "C" __global__ void __launch_bounds__(256)
bf16_to_f32(const u16* __restrict__ x, float* __restrict__ y, u64 num_elements) {
    u64 index = element_index();
    if (index < num_elements) {
        y[index] = widen_bf16(x[index]);
    }
}

extern "C" __global__ void __launch_bounds__(256)
f16_to_f32(const u16* __restrict__ x, float* __restrict__ y, u64 num_elements) {
    u64 index = element_index();
    if (index < num_elements) {
        y[index] = widen_f16(x[index]);
    }
}

extern "C" __global__ void __launch_bounds__(256)
bf16_to_f16(const u16* __restrict__ x, u16* __restrict__ y, u64 num_elements) {
    u64 index = element_index();
    if (index < num_elements) {
        y[index] = narrow_f16(widen_bf16(x[index]));
    }
}

extern "C" __global__ void __launch_bounds__(256)
f16_to_bf16(const u16* __restrict__ x, u16* __restrict__ y, u64 num_elements) {
    u64 index = element_index();
    if (index < num_elements) {
        y[index] = narrow_bf16(widen_f16(x[index]));
    }
}

// `x` is converted to bf16 and back.
extern "C" __global__ void __launch_bounds__(256) round_to_bf16(float* __restrict__ x, u64 num_elements) {
    u64 index = element_index();
    if (index < num_elements) {
        x[index] = widen_bf16(narrow_bf16(x[index]));
    }
}

// `x` is converted to f16 and back.
extern "C" __global__ void __launch_bounds__(256) round_to_f16(float* __restrict__ x, u64 num_elements) {
    u64 index = element_index();
    if (index < num_elements) {
        x[index] = widen_f16(narrow_f16(x[index]));
    }
}
