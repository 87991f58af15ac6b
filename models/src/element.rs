//! What buffers are made of: f32, one of the two 16-bit types that models are trained in, or u32 for tokens and words.
//!
//! Conversions are ours and free of branches, so that loops over them vectorise on every machine; the type itself is
//! the `half` crate's.

use std::fmt::{self, Debug, Display};

use half::{bf16, f16};
use serde::{Deserialize, Serialize};

/// The type of a buffer's elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ElementType {
    /// IEEE 754 binary32.
    #[default]
    F32,
    /// The upper half of an f32: its range, 8 bits of precision.
    Bf16,
    /// IEEE 754 binary16: 11 bits of precision, nothing beyond 65504, where it becomes infinite.
    F16,
    /// Token numbers, and words of other values.
    U32,
}

impl ElementType {
    /// Size of an element in bytes.
    pub const fn num_bytes(self) -> usize {
        match self {
            Self::F32 | Self::U32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }

    /// The smallest magnitude in f32 that is not finite in this type: infinite already, or rounded to infinity. NaN is not below it either.
    pub const fn overflow(self) -> f32 {
        match self {
            Self::F32 | Self::U32 => f32::INFINITY,
            // Halfway between the largest finite value and what would follow it; a tie goes to the even one, which is infinite.
            Self::Bf16 => f32::from_bits(0x7F7F_8000),
            Self::F16 => 65520.0,
        }
    }

    /// Elements of this type that have the bytes of an f32.
    pub(crate) const fn num_packed(self) -> usize {
        ElementType::F32.num_bytes() / self.num_bytes()
    }

    /// How many f32 have room for so many elements of this type.
    pub(crate) const fn f32s_for(self, len: usize) -> usize {
        len.div_ceil(self.num_packed())
    }
}

/// `f32`, `bf16`, `fp16`, `u32`
impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "fp16",
            Self::U32 => "u32",
        })
    }
}

/// A type that a [`Buffer`](crate::Buffer) may hold, implemented by the types of [`ElementType`].
pub trait Element:
    Copy + Default + PartialOrd + Debug + Display + Send + Sync + private::Sealed + 'static
{
    /// Its name at run time.
    const TYPE: ElementType;
}

/// Evaluates an expression with a name for the type that an [`ElementType`] stands for.
macro_rules! with_element {
    ($element:expr, $name:ident => $body:expr) => {
        match $element {
            $crate::element::ElementType::F32 => {
                type $name = f32;
                $body
            }
            $crate::element::ElementType::Bf16 => {
                type $name = half::bf16;
                $body
            }
            $crate::element::ElementType::F16 => {
                type $name = half::f16;
                $body
            }
            $crate::element::ElementType::U32 => {
                type $name = u32;
                $body
            }
        }
    };
}

pub(crate) use with_element;

/// A type that models are trained in.
pub trait Float: Element {
    /// The value in f32, exactly. A signalling NaN may become a quiet one.
    fn widen(self) -> f32;

    /// The nearest value of this type, of two the even one; beyond the range infinite, NaN stays NaN.
    fn narrow(value: f32) -> Self;
}

mod private {
    /// Keeps the set of element types closed: kernels know each of them.
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for half::bf16 {}
    impl Sealed for half::f16 {}
    impl Sealed for u32 {}
}

impl Element for f32 {
    const TYPE: ElementType = ElementType::F32;
}

impl Element for bf16 {
    const TYPE: ElementType = ElementType::Bf16;
}

impl Element for f16 {
    const TYPE: ElementType = ElementType::F16;
}

impl Element for u32 {
    const TYPE: ElementType = ElementType::U32;
}

impl Float for f32 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }

    #[inline(always)]
    fn narrow(value: f32) -> Self {
        value
    }
}

macro_rules! half_float {
    ($half:ident, $widen:ident, $narrow:ident) => {
        impl Float for $half {
            #[inline(always)]
            fn widen(self) -> f32 {
                $widen(self.to_bits())
            }

            #[inline(always)]
            fn narrow(value: f32) -> Self {
                Self::from_bits($narrow(value))
            }
        }
    };
}

half_float!(bf16, widen_bf16, narrow_bf16);
half_float!(f16, widen_f16, narrow_f16);

/// Exponent bits of an f32; what is above them but for the sign is NaN.
const INFINITE: u32 = 0x7f80_0000;

#[inline(always)]
fn widen_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

#[inline(always)]
fn narrow_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    // Adding just below half of the last place that stays, and one more where that place is odd, carries into it
    // whenever the nearest value, of two the even one, is the next; a carry beyond the largest makes infinity.
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    let quiet = bits | 0x40_0000;
    let is_nan = bits & !(1 << 31) > INFINITE;
    ((if is_nan { quiet } else { rounded }) >> 16) as u16
}

/// What an f16's exponent is short of an f32's, in the f32's place.
const REBIAS: u32 = (127 - 15) << 23;

#[inline(always)]
fn widen_f16(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let magnitude = u32::from(bits & 0x7fff) << 13;
    let exponent = magnitude & 0x7c00 << 13;
    let normal = magnitude + REBIAS;
    let infinite_or_nan = magnitude | INFINITE;
    // A subnormal: with the smallest normal exponent put in, it is that power of two too large.
    let smallest_normal = REBIAS + (1 << 23);
    let subnormal = f32::from_bits(magnitude + smallest_normal) - f32::from_bits(smallest_normal);
    let wide = if exponent == 0 { subnormal.to_bits() } else { normal };
    f32::from_bits(sign | if exponent == 0x7c00 << 13 { infinite_or_nan } else { wide })
}

#[inline(always)]
fn narrow_f16(value: f32) -> u16 {
    let sign = value.to_bits() & 1 << 31;
    let magnitude = value.to_bits() ^ sign;
    // As for bf16; a carry beyond 65504 makes infinity.
    let normal = magnitude.wrapping_sub(REBIAS).wrapping_add(0xfff + (magnitude >> 13 & 1)) >> 13;
    // Below the smallest normal f16, adding a number whose last place is the smallest subnormal rounds to that place.
    let rounder = (127 - 15 + 23 - 10 + 1) << 23;
    let sum = f32::from_bits(magnitude) + f32::from_bits(rounder);
    let subnormal = sum.to_bits().wrapping_sub(rounder);
    let quiet = 0x7e00 | magnitude >> 13 & 0x3ff;
    let beyond = if magnitude > INFINITE { quiet } else { 0x7c00 };
    let finite = if magnitude < 113 << 23 { subnormal } else { normal };
    let narrow = if magnitude >= (127 + 16) << 23 { beyond } else { finite };
    (narrow | sign >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `half`'s conversions are the reference: written apart from ours, and in hardware where there is any.
    fn check_all_patterns<E: Float>(of: impl Fn(u16) -> E, bits: impl Fn(E) -> u16, to: impl Fn(E) -> f32) {
        for pattern in 0..=u16::MAX {
            let element = of(pattern);
            let (wide, want) = (element.widen(), to(element));
            assert!(wide.to_bits() == want.to_bits() || wide.is_nan() && want.is_nan(), "{pattern:#x}");
            assert_eq!(wide.is_sign_negative(), pattern & 0x8000 != 0);
            let again = bits(E::narrow(wide));
            assert!(again == pattern || wide.is_nan() && to(of(again)).is_nan(), "{pattern:#x}");
        }
    }

    #[test]
    fn every_pattern_widens_exactly_and_narrows_to_itself() {
        check_all_patterns(bf16::from_bits, bf16::to_bits, bf16::to_f32);
        check_all_patterns(f16::from_bits, f16::to_bits, f16::to_f32);
    }

    /// `half` rounds to infinity from there on, and not before.
    #[test]
    fn a_type_overflows_exactly_where_rounding_to_it_gives_infinity() {
        let check = |element: ElementType, is_infinite: fn(f32) -> bool| {
            let limit = element.overflow();
            assert!(is_infinite(limit) && is_infinite(-limit), "{element}");
            assert!(!is_infinite(limit.next_down()), "{element}");
        };
        check(ElementType::F32, f32::is_infinite);
        check(ElementType::Bf16, |value| bf16::from_f32(value).is_infinite());
        check(ElementType::F16, |value| f16::from_f32(value).is_infinite());
    }

    /// Each pattern, the middle to the next one, and what is just beside either: every boundary between two results of rounding.
    #[test]
    fn narrowing_rounds_to_nearest_even_everywhere_it_could_go_wrong() {
        let check = |value: f32| {
            let (b, h) = (bf16::narrow(value), f16::narrow(value));
            let (want_b, want_h) = (bf16::from_f32(value), f16::from_f32(value));
            assert!(b.to_bits() == want_b.to_bits(), "bf16 {:#x}: {b} is not {want_b}", value.to_bits());
            assert!(h.to_bits() == want_h.to_bits(), "f16 {:#x}: {h} is not {want_h}", value.to_bits());
        };
        for pattern in 0..=u16::MAX {
            let wides = [bf16::from_bits(pattern).to_f32(), f16::from_bits(pattern).to_f32()];
            for wide in wides.map(f32::to_bits) {
                for (distance, beside) in
                    [0, 1 << 11, 1 << 12, 1 << 15].into_iter().flat_map(|d| [(d, -1), (d, 0), (d, 1)])
                {
                    check(f32::from_bits(wide.wrapping_add(distance).wrapping_add_signed(beside)));
                }
            }
        }
        // And a sweep over all of f32, in steps of a prime.
        (0..=u32::MAX).step_by(65_521).for_each(|bits| check(f32::from_bits(bits)));
    }

    #[test]
    fn what_is_too_large_for_f16_becomes_infinite() {
        assert_eq!(f16::narrow(65_519.0).to_f32(), 65_504.0);
        assert_eq!(f16::narrow(65_520.0), f16::INFINITY);
        assert_eq!(f16::narrow(-1e30), f16::NEG_INFINITY);
        assert_eq!(bf16::narrow(f32::MAX), bf16::INFINITY);
        assert!(f16::narrow(f32::NAN).is_nan() && bf16::narrow(f32::NAN).is_nan());
    }

    #[test]
    fn two_elements_of_16_bits_hold_an_f32() {
        assert_eq!([ElementType::F32, ElementType::Bf16].map(ElementType::num_packed), [1, 2]);
    }
}
