//! A model: a chain of layers, each with its role, before it is cut into stages and units.

use std::collections::HashSet;
use std::sync::Arc;

use crate::error::{ModelError, require};
use crate::input_encoder::NO_ROW;
use crate::layer::{Layer, MicroBatchShape};

/// What a layer is to the partitioner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayerRole {
    /// Reads tokens; joins the first stage.
    Embedding,
    /// Belongs to transformer block `index`, counted from 0; a block may be several layers.
    Block {
        /// The block.
        index: usize,
    },
    /// Final norm, head and loss; joins the last stage.
    Head,
}

/// Whether a layer's parameters are shared with another layer. A tied layer is always a separate unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tying {
    /// Its parameters are its own.
    Untied,
    /// The embedding's use of the shared weight.
    Embedding,
    /// The head's use of the shared weight; the same parameter names and layout.
    Head,
}

/// One layer of the chain.
#[derive(Clone, Debug)]
pub struct ModelLayer {
    /// The layer.
    pub layer: Arc<dyn Layer>,
    /// What it is to the partitioner.
    pub role: LayerRole,
    /// Whether its parameters are shared.
    pub tying: Tying,
}

impl ModelLayer {
    /// One layer of the chain.
    pub fn new(layer: impl Layer + 'static, role: LayerRole, tying: Tying) -> Self {
        Self { layer: Arc::new(layer), role, tying }
    }
}

/// A chain of layers from tokens to loss.
#[derive(Clone, Debug)]
pub struct Model {
    /// The layers in order.
    pub layers: Vec<ModelLayer>,
    /// V: tokens are below this number.
    pub vocab_size: usize,
    /// The longest sequence, T, that positions are known for.
    pub seq_length: usize,
    /// Transformer blocks.
    pub num_blocks: usize,
}

impl Model {
    /// Checks that its layers are a chain for micro-batches of this shape: each takes as many elements as the one before gives, slices
    /// being one, and no
    /// two have the same name or, but for a tied weight, a parameter of the same name.
    ///
    /// # Errors
    /// [`ModelError::Shape`] with the first layer that does not fit.
    pub fn check(&self, shape: MicroBatchShape) -> Result<(), ModelError> {
        let (mut names, mut parameters) = (HashSet::new(), HashSet::new());
        for ModelLayer { layer, tying, .. } in &self.layers {
            let rule = "every layer has a name of its own, by which messages and files know it";
            require(names.insert(layer.name().to_owned()), "layer", layer.name(), rule)?;
            for spec in layer.parameters() {
                let part = (spec.name.clone(), spec.rows.start);
                let rule = "another layer has a parameter of this name; begin names with that of the layer";
                let is_new = parameters.insert(part) || *tying == Tying::Head;
                require(is_new, &format!("a parameter of layer {}", layer.name()), &spec.name, rule)?;
            }
        }
        let mut encoders = self.layers.iter().filter(|layer| layer.layer.input_encoder().is_some()).skip(1);
        if let Some(second) = encoders.next() {
            let rule = "a model has one input encoder at most; make its modules those of the first";
            require(false, "an input encoder", second.layer.name(), rule)?;
        }
        if let Some(encoder) = self.layers.iter().find_map(|layer| layer.layer.input_encoder()) {
            let limits = [shape.num_sequences, encoder.inputs_per_sequence, encoder.rows_per_input];
            let num_rows = limits.into_iter().fold(1, |rows: u64, limit| rows.saturating_mul(limit as u64));
            let rule = "must be below 4294967295; lower its limits, or the micro-batch";
            require(
                num_rows < u64::from(NO_ROW),
                "rows of an input encoder in a micro-batch",
                num_rows,
                rule,
            )?;
        }
        let loss_parts = self.layers.last().map_or(&[][..], |head| head.layer.loss_parts());
        for (index, name) in loss_parts.iter().enumerate() {
            let is_key = |letter: char| matches!(letter, 'a'..='z' | '0'..='9' | '_');
            let is_new = !name.is_empty() && name.chars().all(is_key) && !loss_parts[..index].contains(name);
            let rule =
                "metrics know it by its name; give each part another one of small letters, digits and `_`";
            require(is_new, "a part of the loss", format!("{name:?}"), rule)?;
        }
        for pair in self.layers.windows(2) {
            let [before, after] = [&pair[0].layer, &pair[1].layer];
            if !after.table_slice().is_first() {
                continue;
            }
            let (given, taken) = (before.sizes(shape).output, after.sizes(shape).input);
            let name = format!("`LayerSizes::input` of layer {}", after.name());
            let rule = format!(
                "layer {} before it has an `output` of {given} elements; make them equal",
                before.name()
            );
            require(given == taken, &name, taken, rule)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpt2;
    use crate::loss::{CrossEntropy, Loss};
    use crate::memory::{View, ViewMut};
    use crate::queue::Queue;
    use crate::shared::GptConfig;
    use crate::testing::config;

    /// Cross-entropy that says that it has these parts.
    #[derive(Debug)]
    struct Named(Vec<&'static str>);

    impl Loss for Named {
        fn part_names(&self) -> &[&'static str] {
            &self.0
        }

        fn forward(
            &self,
            queue: &dyn Queue,
            logits: View<'_>,
            targets: View<'_>,
            inputs: Option<View<'_>>,
            per_row: ViewMut<'_>,
            loss: ViewMut<'_>,
        ) {
            CrossEntropy.forward(queue, logits, targets, inputs, per_row, loss);
        }

        fn backward(
            &self,
            queue: &dyn Queue,
            logits: ViewMut<'_>,
            targets: View<'_>,
            inputs: Option<View<'_>>,
            per_row: View<'_>,
            seed: f32,
        ) {
            CrossEntropy.backward(queue, logits, targets, inputs, per_row, seed);
        }
    }

    #[test]
    fn parts_of_a_loss_have_names_of_their_own_that_can_be_keys() {
        let shape = MicroBatchShape { num_sequences: 2, seq_length: 5 };
        let checked = |names: &[&'static str]| {
            let model = gpt2::build_with_loss(&config(), Arc::new(Named(names.to_vec())));
            model.unwrap().check(shape).map_err(|error| error.to_string())
        };
        assert_eq!(checked(&[]), Ok(()));
        assert_eq!(checked(&["policy", "value_2"]), Ok(()));
        for (names, wrong) in [
            (["value", "value"], "value"),
            (["a", ""], ""),
            (["Policy", "b"], "Policy"),
            (["a b", "c"], "a b"),
        ] {
            let rule =
                "metrics know it by its name; give each part another one of small letters, digits and `_`";
            assert_eq!(checked(&names), Err(format!("a part of the loss = {wrong:?}: {rule}")));
        }
    }

    #[test]
    fn layers_that_are_no_chain_are_refused_by_name() {
        let shape = MicroBatchShape { num_sequences: 2, seq_length: 5 };
        let model = || gpt2::build(&GptConfig { tie_embeddings: true, ..config() }).unwrap();
        model().check(shape).unwrap();
        let message = |change: &dyn Fn(&mut Vec<ModelLayer>)| {
            let mut broken = model();
            change(&mut broken.layers);
            broken.check(shape).unwrap_err().to_string()
        };
        let wide = gpt2::build(&GptConfig { num_layers: 4, hidden_size: 48, ..config() }).unwrap();
        let fourth = wide.layers.iter().find(|layer| layer.layer.name() == "h.3.mlp").unwrap();
        assert_eq!(
            message(&|layers| layers.insert(3, layers[2].clone())),
            "layer = h.0.attn: every layer has a name of its own, by which messages and files know it"
        );
        assert_eq!(
            message(&|layers| layers.last_mut().unwrap().tying = Tying::Untied),
            "a parameter of layer lm_head = wte.weight: another layer has a parameter of this name; begin names with that of the layer"
        );
        assert_eq!(
            message(&|layers| layers.insert(3, fourth.clone())),
            "`LayerSizes::input` of layer h.3.mlp = 480: layer h.0.attn before it has an `output` of 240 elements; make them equal"
        );
    }
}
