//! Comparisons with a stated tolerance, and pools of a given number of threads.

/// Asserts `max |got - want| <= tolerance * max |want|`.
#[track_caller]
pub(crate) fn assert_close(what: &str, got: &[f32], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    let largest = want.iter().fold(0.0_f64, |largest, x| largest.max(x.abs()));
    for (index, (&got, &want)) in got.iter().zip(want).enumerate() {
        let error = (f64::from(got) - want).abs();
        assert!(
            error <= tolerance * largest,
            "{what}, element {index}: {got} is not {want}; {:.2e} of the largest, {largest}",
            error / largest
        );
    }
}

/// Runs `f` in a rayon pool of its own with this many threads.
pub(crate) fn with_threads<R: Send>(num_threads: usize, f: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(num_threads).build().unwrap().install(f)
}
