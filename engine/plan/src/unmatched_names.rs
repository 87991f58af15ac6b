//! Entries of `zero_optimization.parameters`, `train_only` and `init.new` that match no name of the model.

use std::fmt;

use pipezero_partition::LayerNode;

/// What to do about it.
pub(super) const UNMATCHED_REPAIR: &str = "match at least one, or remove the entry";

/// Entries match no name of a layer or a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmatchedNames {
    /// Each with its place in the list, from 0.
    pub entries: Vec<(usize, String)>,
    /// The names of the first layer, the second and the last.
    pub names: [String; 3],
}

impl fmt::Display for UnmatchedNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second, last] = &self.names;
        write!(
            f,
            "no layer and no parameter has a name like that: layers are {first}, {second}, ..., {last}, and `plan --parameters` lists the \
             parameters"
        )
    }
}

impl UnmatchedNames {
    /// The entries of a list with these numbers, of a model with these layers.
    pub(super) fn of<'a>(
        list: &[impl fmt::Display],
        numbers: Vec<usize>,
        layers: impl IntoIterator<Item = &'a LayerNode>,
    ) -> Self {
        let entries = numbers.into_iter().map(|number| (number, list[number].to_string())).collect();
        let layers: Vec<&LayerNode> = layers.into_iter().collect();
        let last = layers.len() - 1;
        Self { entries, names: [0, 1.min(last), last].map(|layer| layers[layer].name.clone()) }
    }

    /// The entries, in quotes.
    pub(super) fn listed(&self) -> String {
        self.entries.iter().map(|(_, entry)| format!("\"{entry}\"")).collect::<Vec<_>>().join(", ")
    }
}
