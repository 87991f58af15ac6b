//! Which elements are decayed: ranges of a unit's flat buffer, cut to the part that a rank owns.
//!
//! Weight decay goes by parameter, a shard by position: it may begin and end inside a parameter. So the rule is applied
//! once to the names and shapes of a unit, and what the optimizer sees are ranges.

use std::ops::Range;

use pipezero_config::NoDecay;
use pipezero_models::unit::ParameterEntry;

/// The decayed elements of a flat buffer: ascending, disjoint, non-empty ranges. All others, gaps and padding
/// included, are not decayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecayRanges {
    ranges: Vec<Range<usize>>,
}

/// Neighbouring elements with one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// The elements.
    pub(super) range: Range<usize>,
    /// Whether they are decayed.
    pub(super) decayed: bool,
}

impl DecayRanges {
    /// The decayed elements of a flat buffer with these parameters, which lie in ascending order.
    pub fn of_unit<'a>(entries: impl IntoIterator<Item = &'a ParameterEntry>, no_decay: &NoDecay) -> Self {
        let mut decay = Self::default();
        for entry in entries.into_iter().filter(|entry| is_decayed(entry, no_decay)) {
            decay.push(entry.range.clone());
        }
        decay
    }

    /// The ranges, ascending.
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    /// What lies in `shard`, counted from its start.
    pub fn within(&self, shard: Range<usize>) -> Self {
        let mut decay = Self::default();
        for range in &self.ranges {
            let (start, end) = (range.start.max(shard.start), range.end.min(shard.end));
            if start < end {
                decay.push(start - shard.start..end - shard.start);
            }
        }
        decay
    }

    /// The elements `0..len` in order, as the fewest segments. Ranges beyond `len` are left out.
    pub(super) fn segments(&self, len: usize) -> Vec<Segment> {
        let mut segments = Vec::with_capacity(2 * self.ranges.len() + 1);
        let mut push = |range: Range<usize>, decayed| {
            if !range.is_empty() {
                segments.push(Segment { range, decayed });
            }
        };
        let mut end = 0;
        for range in &self.within(0..len).ranges {
            push(end..range.start, false);
            push(range.clone(), true);
            end = range.end;
        }
        push(end..len, false);
        segments
    }

    /// Appends a range, joined to the last one where they touch.
    fn push(&mut self, range: Range<usize>) {
        match self.ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ if range.is_empty() => {}
            last => {
                debug_assert!(
                    last.is_none_or(|last| last.end < range.start),
                    "parameters lie in ascending order"
                );
                self.ranges.push(range);
            }
        }
    }
}

/// Whether a parameter is decayed.
fn is_decayed(entry: &ParameterEntry, no_decay: &NoDecay) -> bool {
    match no_decay {
        NoDecay::OneDimensional => entry.spec.shape.len() > 1,
        NoDecay::Patterns(patterns) => !patterns.iter().any(|pattern| entry.spec.name.contains(pattern)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipezero_models::parameter::{Init, ParameterSpec};

    /// Parameters of these names and shapes, each at the next multiple of 16.
    fn entries(parameters: &[(&str, &[usize])]) -> Vec<ParameterEntry> {
        let mut start = 0;
        let mut entries = Vec::new();
        for &(name, shape) in parameters {
            let rows = 0..shape[0];
            let spec = ParameterSpec { name: name.into(), shape: shape.into(), rows, init: Init::Zeros };
            let range = start..start + spec.num_elements();
            start = range.end.next_multiple_of(16);
            entries.push(ParameterEntry { spec, part: 0, range });
        }
        entries
    }

    fn unit() -> Vec<ParameterEntry> {
        entries(&[
            ("h.0.ln_1.weight", &[4]),
            ("h.0.attn.qkv.weight", &[4, 4]),
            ("h.0.attn.proj.weight", &[3, 4]),
            ("h.0.attn.proj.bias", &[3]),
        ])
    }

    #[test]
    fn one_dimensional_parameters_and_gaps_are_left_out() {
        let decay = DecayRanges::of_unit(&unit(), &NoDecay::OneDimensional);
        // qkv fills 16..32 whole, so proj (12 elements) touches it; 44..48 is a gap.
        assert_eq!(decay.ranges(), std::slice::from_ref(&(16..44)));
    }

    #[test]
    fn patterns_replace_the_rule_of_dimensions() {
        let patterns = |patterns: &[&str]| NoDecay::Patterns(patterns.iter().map(|&p| p.into()).collect());
        assert_eq!(DecayRanges::of_unit(&unit(), &patterns(&["qkv", "bias"])).ranges(), [0..4, 32..44]);
        assert_eq!(DecayRanges::of_unit(&unit(), &patterns(&[])).ranges(), [0..4, 16..44, 48..51]);
        assert_eq!(DecayRanges::of_unit(&unit(), &patterns(&["h.0"])), DecayRanges::default());
    }

    #[test]
    fn every_shard_of_every_cut_decays_what_the_whole_does() {
        let whole = DecayRanges::of_unit(&unit(), &NoDecay::Patterns(vec!["qkv".into()]));
        let len = 64;
        let is_decayed = |decay: &DecayRanges, i| decay.ranges().iter().any(|range| range.contains(&i));
        for start in 0..=len {
            for end in start..=len {
                let shard = whole.within(start..end);
                for i in start..end {
                    assert_eq!(is_decayed(&shard, i - start), is_decayed(&whole, i), "{i} in {start}..{end}");
                }
                check_segments(&shard, end - start);
            }
        }
    }

    /// Segments cover every element once, in order, alternate, and follow the ranges.
    fn check_segments(decay: &DecayRanges, len: usize) {
        let segments = decay.segments(len);
        let mut end = 0;
        for segment in &segments {
            assert_eq!(segment.range.start, end);
            assert!(!segment.range.is_empty());
            end = segment.range.end;
            for i in segment.range.clone() {
                assert_eq!(segment.decayed, decay.ranges().iter().any(|range| range.contains(&i)));
            }
        }
        assert_eq!(end, len);
        assert!(segments.windows(2).all(|pair| pair[0].decayed != pair[1].decayed));
    }

    #[test]
    fn ranges_beyond_the_buffer_are_cut() {
        let decay = DecayRanges::of_unit(&unit(), &NoDecay::OneDimensional);
        assert_eq!(
            decay.segments(20),
            [Segment { range: 0..16, decayed: false }, Segment { range: 16..20, decayed: true }]
        );
        assert_eq!(decay.segments(0), []);
    }
}
