//! Where the numbers of a step have ceased to be finite: what each rank has found, and what follows from it for all of them.
//!
//! The nearest cause is named. A weight that is not finite at rest was made so by an earlier update. If all weights are finite, the first layer
//! whose output is not finite has made a micro-batch's loss so. If all outputs are finite, the loss itself is it; and if the losses are finite too,
//! the gradient of the last unit that has none that is finite, from which the others have theirs.

use std::fmt;

use pipezero_plan::Plan;
use pipezero_schedule::Unit;
use serde::{Deserialize, Serialize};

/// What one rank has found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Findings {
    pub(super) weight: Option<BrokenWeight>,
    pub(super) losses: Vec<BrokenLoss>,
    /// Of each micro-batch that has one, the first.
    pub(super) outputs: Vec<BrokenOutput>,
    pub(super) gradient: Option<BrokenGradient>,
}

/// A weight that is not finite although the step has changed none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct BrokenWeight {
    pub(super) unit: usize,
    /// The parameter's number in the unit, and the element's in the parameter.
    pub(super) order: (usize, usize),
    pub(super) rank: usize,
    pub(super) name: String,
    /// The element, by dimension.
    pub(super) index: Vec<usize>,
    pub(super) value: String,
}

/// The loss of a micro-batch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct BrokenLoss {
    pub(super) micro_batch: usize,
    pub(super) data_rank: usize,
    pub(super) of: LayerOnRank,
    pub(super) value: String,
    /// Whether it was so again when the micro-batch was computed a second time.
    pub(super) is_again: bool,
}

/// The output of a layer for a micro-batch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct BrokenOutput {
    pub(super) micro_batch: usize,
    pub(super) data_rank: usize,
    pub(super) of: LayerOnRank,
    /// The first token whose output is not finite: sequence and token.
    pub(super) token: [usize; 2],
    pub(super) value: String,
}

/// The gradient of a unit, in the part that a rank holds after all data ranks' were added.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct BrokenGradient {
    pub(super) units_behind: usize,
    pub(super) rank: usize,
    pub(super) unit: usize,
    /// Names of its layers.
    pub(super) layers: String,
}

/// A layer of the model, with the unit and the rank that compute it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct LayerOnRank {
    /// Its place in the model.
    pub(super) layer: usize,
    pub(super) name: String,
    pub(super) unit: usize,
    pub(super) rank: usize,
}

impl LayerOnRank {
    /// A layer by its number in its unit.
    pub(super) fn new(plan: &Plan, unit: Unit, number: usize, rank: usize) -> Self {
        let layer = plan.unit(unit).layers.start + number;
        Self { layer, name: plan.graph().layer(layer).name.clone(), unit: unit.index(), rank }
    }
}

/// `layer h.0.attn (unit u1, rank 0)`
impl fmt::Display for LayerOnRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "layer {} (unit u{}, rank {})", self.name, self.unit, self.rank)
    }
}

/// Where it began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum NotFinite {
    /// A weight, since an earlier step.
    Weight(BrokenWeight),
    /// A loss, and the output that has made it so, if one has.
    Loss(BrokenLoss, Option<BrokenOutput>),
    /// A gradient, and an output that is not finite although the losses are.
    Gradient(BrokenGradient, Option<BrokenOutput>),
    /// No rank has found it again.
    Unknown,
}

impl NotFinite {
    /// What the findings of all ranks come to.
    pub(crate) fn of(findings: &[Findings]) -> Self {
        if let Some(weight) = findings.iter().filter_map(|found| found.weight.as_ref()).min() {
            return Self::Weight(weight.clone());
        }
        let outputs = || findings.iter().flat_map(|found| &found.outputs);
        if let Some(loss) = findings.iter().flat_map(|found| &found.losses).min() {
            let is_before = |output: &&BrokenOutput| {
                (output.micro_batch, output.data_rank) == (loss.micro_batch, loss.data_rank)
            };
            return Self::Loss(loss.clone(), outputs().filter(is_before).min().cloned());
        }
        match findings.iter().filter_map(|found| found.gradient.as_ref()).min() {
            Some(gradient) => Self::Gradient(gradient.clone(), outputs().min().cloned()),
            None => Self::Unknown,
        }
    }

    /// What can be done about it.
    pub(crate) fn remedy(&self) -> &'static str {
        match self {
            Self::Weight(_) => "go back to an earlier checkpoint and lower the learning rate",
            Self::Loss(loss, None) if !loss.is_again => {
                "look for what does not compute the same twice: a layer, a loss, the data or the device"
            }
            Self::Loss(..) | Self::Gradient(..) | Self::Unknown => {
                "lower the learning rate or look at the data of this step"
            }
        }
    }
}

impl fmt::Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Weight(BrokenWeight { rank, name, index, value, .. }) => write!(
                f,
                "the weight `{name}`{index:?} on rank {rank} is not finite ({value}), since an earlier update"
            ),
            Self::Loss(loss, output) => {
                let BrokenLoss { micro_batch, of, value, .. } = loss;
                write!(
                    f,
                    "the loss of micro-batch {micro_batch} on rank {} is not finite ({value}): ",
                    of.rank
                )?;
                match output {
                    Some(output) => write!(f, "{output}"),
                    None if loss.is_again => {
                        write!(
                            f,
                            "it is the first, in {of}: all weights and the outputs of all layers before it are finite"
                        )
                    }
                    None => f.write_str("a second forward of the micro-batch is finite"),
                }
            }
            Self::Gradient(BrokenGradient { rank, unit, layers, .. }, output) => {
                write!(f, "the gradient of unit u{unit} ({layers}) on rank {rank} is not finite: ")?;
                match output {
                    Some(output) => {
                        write!(f, "the losses are finite, but in micro-batch {} {output}", output.micro_batch)
                    }
                    None => f.write_str("it is the first on the way back, and the whole forward is finite"),
                }
            }
            Self::Unknown => f.write_str("the loss or a gradient is not finite"),
        }
    }
}

/// `the first output that is not finite is that of layer h.0.attn (unit u1, rank 0), inf at token 3 of sequence 0`
impl fmt::Display for BrokenOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { of, token: [sequence, token], value, .. } = self;
        write!(
            f,
            "the first output that is not finite is that of {of}, {value} at token {token} of sequence {sequence}; all weights are finite"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(layer: usize, rank: usize) -> LayerOnRank {
        LayerOnRank { layer, name: format!("h.{layer}"), unit: layer, rank }
    }

    fn output(micro_batch: usize, data_rank: usize, of: usize) -> BrokenOutput {
        let token = [0, 3];
        BrokenOutput { micro_batch, data_rank, of: layer(of, data_rank), token, value: "inf".to_owned() }
    }

    fn loss(micro_batch: usize, data_rank: usize, is_again: bool) -> BrokenLoss {
        BrokenLoss { micro_batch, data_rank, of: layer(9, data_rank), value: "NaN".to_owned(), is_again }
    }

    fn weight(unit: usize, element: usize, rank: usize) -> BrokenWeight {
        let (name, value) = ("w".to_owned(), "inf".to_owned());
        BrokenWeight { unit, order: (0, element), rank, name, index: vec![element], value }
    }

    fn gradient(unit: usize, rank: usize) -> BrokenGradient {
        BrokenGradient { units_behind: 9 - unit, rank, unit, layers: "h".to_owned() }
    }

    /// Whichever ranks have found what, in whatever order they say it.
    #[test]
    fn the_nearest_cause_is_the_verdict() {
        let of = |weights: &[BrokenWeight],
                  losses: &[BrokenLoss],
                  outputs: &[BrokenOutput],
                  gradients: &[BrokenGradient]| {
            let one = Findings::default;
            let weights = weights.iter().map(|of| Findings { weight: Some(of.clone()), ..one() });
            let losses = losses.iter().map(|of| Findings { losses: vec![of.clone()], ..one() });
            let outputs = outputs.iter().map(|of| Findings { outputs: vec![of.clone()], ..one() });
            let gradients = gradients.iter().map(|of| Findings { gradient: Some(of.clone()), ..one() });
            let mut all: Vec<Findings> = weights.chain(losses).chain(outputs).chain(gradients).collect();
            let verdict = NotFinite::of(&all);
            all.reverse();
            assert_eq!(NotFinite::of(&all), verdict);
            verdict
        };
        let broken = [loss(2, 0, true), loss(1, 1, true)];
        let outputs = [output(2, 0, 1), output(1, 1, 5), output(1, 1, 4), output(0, 0, 0)];
        let gradients = [gradient(3, 0), gradient(7, 1)];
        let weights = [weight(4, 0, 0), weight(2, 8, 1), weight(2, 5, 0)];
        assert_eq!(of(&weights, &broken, &outputs, &gradients), NotFinite::Weight(weight(2, 5, 0)));
        let expected = NotFinite::Loss(loss(1, 1, true), Some(output(1, 1, 4)));
        assert_eq!(of(&[], &broken, &outputs, &gradients), expected, "micro-batch 0 has a finite loss");
        assert_eq!(of(&[], &broken, &outputs[3..], &gradients), NotFinite::Loss(loss(1, 1, true), None));
        assert_eq!(of(&[], &[], &[], &gradients), NotFinite::Gradient(gradient(7, 1), None));
        let expected = NotFinite::Gradient(gradient(7, 1), Some(output(0, 0, 0)));
        assert_eq!(of(&[], &[], &outputs, &gradients), expected);
        assert_eq!(of(&[], &[], &outputs, &[]), NotFinite::Unknown);
    }

    #[test]
    fn a_loss_that_is_finite_the_second_time_is_blamed_on_what_computes_twice() {
        let once = NotFinite::Loss(loss(0, 0, false), None);
        assert!(once.to_string().ends_with("a second forward of the micro-batch is finite"), "{once}");
        assert!(once.remedy().starts_with("look for what does not compute the same twice"));
        assert!(NotFinite::Loss(loss(0, 0, true), None).remedy().starts_with("lower the learning rate"));
    }
}
