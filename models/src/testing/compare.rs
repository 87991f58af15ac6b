//! Comparisons with a stated tolerance, and the same work on several numbers of threads.

use std::ops::Range;

/// Asserts `max |got - want| <= tolerance * max |want|`.
#[track_caller]
pub(crate) fn assert_close(what: &str, got: &[f32], want: &[f64], tolerance: f64) {
    assert_close_of(what, got, want, tolerance, largest(want));
}

/// The largest magnitude.
pub(crate) fn largest(of: &[f64]) -> f64 {
    of.iter().fold(0.0, |largest, x| largest.max(x.abs()))
}

/// Asserts `max |got - want| <= tolerance * largest`.
#[track_caller]
pub(crate) fn assert_close_of(what: &str, got: &[f32], want: &[f64], tolerance: f64, largest: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (index, (&got, &want)) in got.iter().zip(want).enumerate() {
        let error = (f64::from(got) - want).abs();
        assert!(
            error <= tolerance * largest,
            "{what}, element {index}: {got} is not {want}; {:.2e} of the largest, {largest}",
            error / largest
        );
    }
}

/// Asserts equality of every bit.
#[track_caller]
pub(crate) fn assert_same_bits(what: &str, got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (index, (got, want)) in got.iter().zip(want).enumerate() {
        assert_eq!(got.to_bits(), want.to_bits(), "{what}, element {index}: {got:e} is not {want:e}");
    }
}

/// Runs `f` on pools of 1, 2, 3 and 5 threads, asserts equal bits, and returns them.
#[track_caller]
pub(crate) fn same_on_all_threads(what: &str, f: impl Fn() -> Vec<f32> + Sync) -> Vec<f32> {
    let [one, others @ ..] = [1, 2, 3, 5].map(|num_threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(num_threads).build().unwrap();
        (num_threads, pool.install(&f))
    });
    for (num_threads, result) in others {
        assert_same_bits(&format!("{what} on {num_threads} threads"), &result, &one.1);
    }
    one.1
}

/// Runs `f` on elements `0..num` of its inputs, on all numbers of threads, and on short parts of them anywhere; asserts equal bits of
/// every output at every place, and returns the outputs of the whole, one behind the other.
#[track_caller]
pub(crate) fn same_at_every_place<const K: usize>(
    what: &str,
    num: usize,
    f: impl Fn(Range<usize>) -> [Vec<f32>; K] + Sync,
) -> Vec<f32> {
    let whole = same_on_all_threads(what, || f(0..num).concat());
    for (first, len) in (0..20).flat_map(|first| [1, 7, 16, 33].map(|len| (first, len))) {
        for (output, part) in f(first..first + len).iter().enumerate() {
            let want = &whole[output * num + first..][..len];
            assert_same_bits(&format!("output {output} of {what} from {first}"), part, want);
        }
    }
    whole
}
