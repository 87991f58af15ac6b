//! Compiles a loop for the widest vector unit of the machine that runs it, chosen at run time.

use pulp::{Arch, Simd, WithSimd};

/// The vector instructions that the kernels and products of this machine use: `x86-64-v4` has AVX-512, `x86-64-v3` AVX2 and FMA. Products add in
/// another order with other instructions.
pub fn instruction_set() -> &'static str {
    struct Name;
    impl WithSimd for Name {
        type Output = &'static str;

        fn with_simd<S: Simd>(self, _: S) -> &'static str {
            std::any::type_name::<S>()
        }
    }
    match Arch::new().dispatch(Name).rsplit("::").next() {
        Some("V4") => "x86-64-v4",
        Some("V3") => "x86-64-v3",
        Some(other) => other,
        None => "scalar",
    }
}

/// Runs `f`, compiled several times over, in the version for this machine.
///
/// `f` must be an `#[inline(always)]` closure that calls only `#[inline(always)]` functions: what is not inlined is
/// compiled for the baseline.
#[inline(always)]
pub(super) fn dispatch<R>(f: impl FnOnce() -> R) -> R {
    Arch::new().dispatch(f)
}
