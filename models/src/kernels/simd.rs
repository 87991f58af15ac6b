//! Compiles a loop for the widest vector unit of the machine that runs it, chosen at run time.

/// Runs `f`, compiled several times over, in the version for this machine.
///
/// `f` must be an `#[inline(always)]` closure that calls only `#[inline(always)]` functions: what is not inlined is
/// compiled for the baseline.
#[inline(always)]
pub(super) fn dispatch<R>(f: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(f)
}
