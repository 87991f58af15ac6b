//! What a unit consists of: what its costs are found by.

use pipezero_models::Layer;

use super::file::UnitTimes;
use crate::PlannedUnit;

/// The layers of a unit by kind, with their parameters.
#[derive(Clone, Debug)]
pub struct UnitKey {
    layers: Vec<LayerKind>,
    /// Whether it is not trained.
    pub is_frozen: bool,
    /// Whether its backward has anything to do.
    pub has_backward: bool,
}

/// One layer of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LayerKind {
    name: String,
    parameters: u64,
    /// Those that are not trained, in a unit of which others are.
    frozen_parameters: u64,
}

/// Units are alike where a costs file has one entry for them, which does not tell apart which of its layers frozen parameters are of.
impl PartialEq for UnitKey {
    fn eq(&self, other: &Self) -> bool {
        let kinds = |key: &Self| (key.frozen_parameters(), key.is_frozen, key.has_backward);
        let layers = |key: &Self| {
            key.layers.iter().map(|layer| (layer.name.clone(), layer.parameters)).collect::<Vec<_>>()
        };
        kinds(self) == kinds(other) && layers(self) == layers(other)
    }
}

impl UnitKey {
    /// What a planned unit consists of.
    pub fn of(unit: &PlannedUnit) -> Self {
        let mut layers: Vec<LayerKind> =
            unit.unit.layers().iter().map(|layer| LayerKind::of(&**layer)).collect();
        if !unit.is_frozen {
            let of_layers = unit.unit.entries_by_layer();
            for (layer, entries) in layers.iter_mut().zip(of_layers) {
                let frozen = entries.iter().filter(|entry| unit.parts[entry.part].is_frozen);
                layer.frozen_parameters = frozen.map(|entry| entry.range.len() as u64).sum();
            }
        }
        Self { layers, is_frozen: unit.is_frozen, has_backward: unit.has_backward }
    }

    /// The kinds of its layers, as a costs file names them.
    pub fn layers(&self) -> Vec<String> {
        self.layers.iter().map(|layer| layer.name.clone()).collect()
    }

    /// Parameters of its layers.
    pub fn parameters(&self) -> u64 {
        parameters(&self.layers)
    }

    /// Parameters of its layers that are not trained, in a unit of which others are.
    pub fn frozen_parameters(&self) -> u64 {
        self.layers.iter().map(|layer| layer.frozen_parameters).sum()
    }

    /// The fewest entries that, one after the other, consist of the same layers; `None` where no entries do. For a unit that is frozen, or of
    /// which a part is, they are entries of such ones, or else of trained ones.
    pub(super) fn composed_of<'a>(&self, entries: &'a [UnitTimes]) -> Option<Vec<&'a UnitTimes>> {
        let is_own = |layers: &[LayerKind], entry: &UnitTimes| {
            let frozen: u64 = layers.iter().map(|layer| layer.frozen_parameters).sum();
            let is_of_kind = (entry.frozen, entry.frozen_parameters) == (self.is_frozen, frozen);
            is_of_kind && (entry.has_backward() || !self.has_backward)
        };
        let is_trained =
            |_: &[LayerKind], entry: &UnitTimes| (entry.frozen, entry.frozen_parameters) == (false, 0);
        let own = self.composed_of_those(entries, is_own);
        own.or_else(|| self.composed_of_those(entries, is_trained))
    }

    fn composed_of_those<'a>(
        &self,
        entries: &'a [UnitTimes],
        is_of_them: impl Fn(&[LayerKind], &UnitTimes) -> bool,
    ) -> Option<Vec<&'a UnitTimes>> {
        // By how many layers are accounted for: with how few entries, and which is the last.
        let mut best: Vec<Option<(usize, Option<&'a UnitTimes>)>> = vec![None; self.layers.len() + 1];
        best[0] = Some((0, None));
        for start in 0..self.layers.len() {
            let Some((num_entries, _)) = best[start] else { continue };
            for entry in entries {
                let end = start + entry.layers.len();
                let is_better =
                    |found: &Option<(usize, _)>| found.is_none_or(|(num, _)| num_entries + 1 < num);
                let Some(layers) = self.layers.get(start..end) else { continue };
                if is_of_them(layers, entry) && are_those_of(layers, entry) && is_better(&best[end]) {
                    best[end] = Some((num_entries + 1, Some(entry)));
                }
            }
        }
        let mut found = Vec::new();
        let mut end = self.layers.len();
        while let (_, Some(last)) = best[end]? {
            found.push(last);
            end -= last.layers.len();
        }
        found.reverse();
        Some(found)
    }
}

fn are_those_of(layers: &[LayerKind], entry: &UnitTimes) -> bool {
    let names = layers.iter().map(|layer| &layer.name);
    names.eq(&entry.layers) && parameters(layers) == entry.parameters
}

fn parameters(layers: &[LayerKind]) -> u64 {
    layers.iter().map(|layer| layer.parameters).sum()
}

impl LayerKind {
    fn of(layer: &dyn Layer) -> Self {
        Self {
            name: kind(layer.name()),
            parameters: layer.parameters().iter().map(|spec| spec.num_elements() as u64).sum(),
            frozen_parameters: 0,
        }
    }
}

/// A layer's name with `*` for the numbers between its dots: `h.*.attn` for `h.3.attn`.
pub(super) fn kind(name: &str) -> String {
    let part = |part: &'_ str| match part.parse::<u64>() {
        Ok(_) => "*".to_owned(),
        Err(_) => part.to_owned(),
    };
    name.split('.').map(part).collect::<Vec<_>>().join(".")
}

/// Longest pattern of layers that is looked for: a block in two halves, and as much again.
const PATTERN_MAX: usize = 4;

/// Layers by kind, in words; a pattern that comes again and again is written once: `24 x (h.*.attn, h.*.mlp), ln_f`.
pub(super) fn in_words(layers: &[String]) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut rest = layers;
    while !rest.is_empty() {
        let times = |len: usize| {
            let (pattern, mut blocks) = (&rest[..len], rest.chunks_exact(len));
            let differs = blocks.position(|block| block != pattern);
            differs.unwrap_or(rest.len() / len)
        };
        let patterns = (1..=PATTERN_MAX.min(rest.len())).filter(|&len| times(len) > 1);
        // Most layers, and of these the shortest pattern.
        let best = patterns.max_by_key(|&len| (len * times(len), std::cmp::Reverse(len)));
        let (len, times) = best.map_or((1, 1), |len| (len, times(len)));
        let pattern = rest[..len].join(", ");
        words.push(match (len, times) {
            (_, 1) => pattern,
            (1, _) => format!("{times} x {pattern}"),
            _ => format!("{times} x ({pattern})"),
        });
        rest = &rest[len * times..];
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::PerElement;

    fn key(layers: &str) -> UnitKey {
        let kind = |name: char| LayerKind { name: name.to_string(), parameters: 10, frozen_parameters: 0 };
        UnitKey { layers: layers.chars().map(kind).collect(), is_frozen: false, has_backward: true }
    }

    fn entry(layers: &str) -> UnitTimes {
        UnitTimes {
            layers: layers.chars().map(String::from).collect(),
            parameters: 10 * layers.len() as u64,
            frozen: false,
            frozen_parameters: 0,
            forward_ns: 1,
            backward_ns: Some(2),
            backward_input_ns: None,
            backward_weight_ns: None,
            recompute_ns: None,
            gradient_norm: PerElement::default(),
            optimizer_step: PerElement::default(),
        }
    }

    fn composed(layers: &str, entries: &[&str]) -> Option<Vec<String>> {
        let entries: Vec<UnitTimes> = entries.iter().map(|layers| entry(layers)).collect();
        let found = key(layers).composed_of(&entries)?;
        Some(found.iter().map(|entry| entry.layers.concat()).collect())
    }

    #[test]
    fn numbers_do_not_tell_kinds_apart() {
        for (name, expected) in [
            ("h.3.attn", "h.*.attn"),
            ("h.47", "h.*"),
            ("lm_head", "lm_head"),
            ("ln_1.weight", "ln_1.weight"),
            ("block3.0.1", "block3.*.*"),
        ] {
            assert_eq!(kind(name), expected);
        }
    }

    #[test]
    fn layers_that_come_again_are_written_once() {
        let words = |layers: &str| in_words(&layers.chars().map(String::from).collect::<Vec<_>>());
        for (layers, expected) in [
            ("", ""),
            ("eam", "e, a, m"),
            ("aaa", "3 x a"),
            ("eamamamf", "e, 3 x (a, m), f"),
            ("abcabcabcc", "3 x (a, b, c), c"),
            ("aab", "2 x a, b"),
            ("aabaab", "2 x (a, a, b)"),
        ] {
            assert_eq!(words(layers), expected, "{layers}");
        }
    }

    #[test]
    fn a_unit_is_composed_of_the_fewest_entries() {
        let some = |entries: &[&str]| Some(entries.iter().map(|&entry| entry.to_owned()).collect::<Vec<_>>());
        assert_eq!(composed("eamam", &["eam", "am"]), some(&["eam", "am"]));
        assert_eq!(composed("amam", &["a", "m", "am", "amam"]), some(&["amam"]));
        assert_eq!(composed("amam", &["a", "m", "am"]), some(&["am", "am"]));
        // The longest first leads nowhere.
        assert_eq!(composed("aab", &["aa", "a", "ab"]), some(&["a", "ab"]));
        assert_eq!(composed("am", &["a", "amam"]), None);
        assert_eq!(composed("am", &[]), None);
    }

    /// Against all ways to cut the sequence: every cut is tried, the fewest parts that are entries kept.
    #[test]
    fn no_cut_into_entries_has_fewer_parts() {
        let entries = ["a", "b", "ab", "ba", "aab", "bb"];
        let mut num_composed = 0;
        for len in 1..=7_u32 {
            for bits in 0..1_u32 << len {
                let layers: String =
                    (0..len).map(|bit| if bits >> bit & 1 == 0 { 'a' } else { 'b' }).collect();
                let cuts = (0..1_u32 << (len - 1)).filter_map(|cuts| {
                    let mut parts = vec![String::new()];
                    for (index, layer) in layers.chars().enumerate() {
                        if index > 0 && cuts >> (index - 1) & 1 == 1 {
                            parts.push(String::new());
                        }
                        parts.last_mut().unwrap().push(layer);
                    }
                    parts.iter().all(|part| entries[1..].contains(&part.as_str())).then_some(parts.len())
                });
                // Without "a" some sequences have no cut.
                let found = composed(&layers, &entries[1..]).map(|parts| parts.len());
                assert_eq!(found, cuts.min(), "{layers}");
                num_composed += usize::from(found.is_some());
            }
        }
        assert!(num_composed > 100, "{num_composed}");
    }

    #[test]
    fn a_frozen_unit_is_priced_by_frozen_entries_before_trained_ones_and_a_trained_one_never_by_frozen_ones()
    {
        let frozen = |layers| UnitTimes { frozen: true, forward_ns: 7, ..entry(layers) };
        let of = |is_frozen, entries: &[UnitTimes]| {
            let found = UnitKey { is_frozen, ..key("am") }.composed_of(entries)?;
            Some(found.iter().map(|entry| entry.forward_ns).collect::<Vec<_>>())
        };
        assert_eq!(of(true, &[entry("am"), frozen("a"), frozen("m")]), Some(vec![7, 7]));
        assert_eq!(of(true, &[entry("am"), frozen("a")]), Some(vec![1]));
        assert_eq!(of(false, &[frozen("am"), entry("a"), entry("m")]), Some(vec![1, 1]));
        assert_eq!(of(false, &[frozen("am")]), None);
    }

    #[test]
    fn other_sizes_are_another_unit() {
        let wider = UnitTimes { parameters: 21, ..entry("am") };
        assert_eq!(key("am").composed_of(&[wider]), None);
    }
}
