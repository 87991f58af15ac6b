//! Compiles a loop for the widest vector unit of the machine that runs it, chosen at run time.

/// The vector instructions that kernels use on this machine, as people call them. What they compute is the same to the bit with any of
/// them, but for products of matrices, which are summed in an order of their own for each.
pub fn instruction_set() -> String {
    let chosen = format!("{:?}", pulp::Arch::new());
    match chosen.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default() {
        "V4" => "AVX-512 (x86-64-v4)".to_owned(),
        "V3" => "AVX2 and FMA (x86-64-v3)".to_owned(),
        other => other.to_owned(),
    }
}

/// Runs `f`, compiled several times over, in the version for this machine.
///
/// `f` must be an `#[inline(always)]` closure that calls only `#[inline(always)]` functions: what is not inlined is
/// compiled for the baseline.
#[inline(always)]
pub(super) fn dispatch<R>(f: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(f)
}
