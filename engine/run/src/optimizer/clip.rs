//! Gradient clipping by the global norm.

/// What every gradient is multiplied by so that their norm is at most `max_norm`: `min(1, max_norm / (norm + 1e-6))`.
///
/// A `max_norm` of 0 switches clipping off (DeepSpeed's `gradient_clipping`). A norm that is NaN gives NaN, so a
/// broken step cannot pass for a healthy one.
///
/// Source: PyTorch's `torch.nn.utils.clip_grad_norm_`, 1e-6 included; arXiv:1211.5063, section 3.2.
pub fn clip_factor(norm: f64, max_norm: f64) -> f64 {
    if max_norm == 0.0 {
        return 1.0;
    }
    let factor = max_norm / (norm + 1e-6);
    // `f64::min` would turn NaN into 1.
    if factor > 1.0 { 1.0 } else { factor }
}

#[cfg(test)]
mod tests {
    use super::clip_factor;

    #[test]
    fn norms_above_the_limit_are_brought_to_it_and_others_left_alone() {
        for (norm, limit, factor) in [
            (4.0, 1.0, 1.0 / (4.0 + 1e-6)),
            (1e30, 0.5, 0.5 / 1e30),
            (0.0, 1.0, 1.0),
            (0.999, 1.0, 1.0),
            // At the limit itself the 1e-6 already bites, as in PyTorch.
            (1.0, 1.0, 1.0 / (1.0 + 1e-6)),
            // Zero switches clipping off.
            (1e30, 0.0, 1.0),
            (f64::INFINITY, 1.0, 0.0),
        ] {
            assert_eq!(clip_factor(norm, limit), factor, "{norm} to {limit}");
        }
        assert!(clip_factor(f64::NAN, 1.0).is_nan());
    }
}
