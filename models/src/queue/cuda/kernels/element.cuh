#ifndef __CUDACC_RTC__
#include "common.cuh"
#endif

// What activations, and the parameters beside them, are stored in: the program is compiled once for each
// type, with `ELEMENT_F32`, `ELEMENT_BF16` or `ELEMENT_F16` defined. Kernels compute in f32 whatever it is.
//
// Conversions are exact to a wider type, to nearest even to a narrower one, and NaN stays NaN.
#ifndef PIPEZERO_ELEMENT
#define PIPEZERO_ELEMENT

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

#ifdef __CUDACC__
// The instructions for f16, which give the host's bits but for payloads of NaN.
DEVICE float widen_f16(u16 bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

DEVICE u16 narrow_f16(float value) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
#else
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
#endif

#if defined(ELEMENT_F32)
typedef float element;

DEVICE float widened(element value) {
    return value;
}

DEVICE element narrowed(float value) {
    return value;
}
#elif defined(ELEMENT_BF16)
struct element {
    u16 bits;
};

DEVICE float widened(element value) {
    return widen_bf16(value.bits);
}

DEVICE element narrowed(float value) {
    return {narrow_bf16(value)};
}
#elif defined(ELEMENT_F16)
struct element {
    u16 bits;
};

DEVICE float widened(element value) {
    return widen_f16(value.bits);
}

DEVICE element narrowed(float value) {
    return {narrow_f16(value)};
}
#else
#error "the type of elements is to be defined"
#endif

#endif
