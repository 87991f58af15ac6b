//! What JSON cannot say of a costs file: that entries are there, none for nothing, and no two for one thing.

use super::file::{CostsFile, MessageTimes, PerElement, UnitTimes};
use super::file_error::CostsFileRule;
use super::message_kind::MessageKind;
use super::slowness::MEAN_PPM;
use super::unit_key::kind;

/// A rule that does not hold, and the key that breaks it.
pub(super) struct Broken {
    pub(super) path: String,
    pub(super) rule: CostsFileRule,
}

fn broken(path: impl Into<String>, rule: CostsFileRule) -> Result<(), Broken> {
    Err(Broken { path: path.into(), rule })
}

impl CostsFile {
    /// Holds every rule against the file.
    pub(super) fn check(&self) -> Result<(), Broken> {
        check_name("host.name", &self.host.name)?;
        check_count("host.cores", self.host.cores)?;
        check_count("host.ranks", self.host.ranks)?;
        if let Some((step, ranks)) = self.rank_slowness_ppm.unlike(self.host.ranks) {
            let rule = CostsFileRule::RanksOfStep { step, ranks, expected: self.host.ranks };
            return broken(format!("rank_slowness_ppm[{step}]"), rule);
        }
        // Of ranks that compute little one may be far off, on a busy machine; all of them together are not.
        if let Some(mean_ppm) = self.rank_slowness_ppm.mean_ppm()
            && !(u64::from(MEAN_PPM) / 10..=10 * u64::from(MEAN_PPM)).contains(&mean_ppm)
        {
            return broken("rank_slowness_ppm", CostsFileRule::MeanSlowness { mean_ppm });
        }
        if self.units.is_empty() {
            return broken("units", CostsFileRule::NoUnits);
        }
        for (index, unit) in self.units.iter().enumerate() {
            unit.check(&format!("units[{index}]"))?;
            let is_same =
                |other: &UnitTimes| other.layers == unit.layers && other.parameters == unit.parameters;
            if self.units[..index].iter().any(is_same) {
                let rule = CostsFileRule::UnitTwice { layers: unit.layers.clone() };
                return broken(format!("units[{index}]"), rule);
            }
        }
        for (index, message) in self.messages.iter().enumerate() {
            message.check(&format!("messages[{index}]"))?;
            let MessageTimes { kind, ranks, .. } = *message;
            if self.messages[..index].iter().any(|other| (other.kind, other.ranks) == (kind, ranks)) {
                return broken(format!("messages[{index}]"), CostsFileRule::MessageTwice { kind, ranks });
            }
        }
        Ok(())
    }
}

impl UnitTimes {
    fn check(&self, path: &str) -> Result<(), Broken> {
        if self.layers.is_empty() {
            let path = format!("{path}.layers");
            return broken(path.clone(), CostsFileRule::NoLayers { path });
        }
        for (index, layer) in self.layers.iter().enumerate() {
            let path = format!("{path}.layers[{index}]");
            check_name(&path, layer)?;
            let expected = kind(layer);
            if expected != *layer {
                let rule = CostsFileRule::LayerNumber { path: path.clone(), layer: layer.clone(), expected };
                return broken(path, rule);
            }
        }
        let layers = || self.layers.clone();
        match (self.backward_ns, self.backward_input_ns, self.backward_weight_ns) {
            (_, Some(_), None) | (_, None, Some(_)) => {
                return broken(path, CostsFileRule::OneHalf { layers: layers() });
            }
            (None, None, None) => return broken(path, CostsFileRule::NoBackward { layers: layers() }),
            (Some(_), None, None) | (_, Some(_), Some(_)) => {}
        }
        for (key, part) in [("gradient_norm", self.gradient_norm), ("optimizer_step", self.optimizer_step)] {
            let PerElement { elements, ns } = part;
            if elements == 0 && ns > 0 {
                let path = format!("{path}.{key}.elements");
                return broken(path.clone(), CostsFileRule::NoElements { path, ns });
            }
        }
        Ok(())
    }
}

impl MessageTimes {
    fn check(&self, path: &str) -> Result<(), Broken> {
        check_ranks(format!("{path}.ranks"), self.kind, self.ranks)?;
        if self.sizes.is_empty() {
            let path = format!("{path}.sizes");
            return broken(path.clone(), CostsFileRule::NoSizes { path });
        }
        for (index, size) in self.sizes.iter().enumerate() {
            check_count(&format!("{path}.sizes[{index}].bytes"), size.bytes)?;
        }
        let unsorted = self.sizes.windows(2).position(|pair| pair[0].bytes >= pair[1].bytes);
        let Some(index) = unsorted else { return Ok(()) };
        let path = format!("{path}.sizes[{}].bytes", index + 1);
        let [before, bytes] = [self.sizes[index].bytes, self.sizes[index + 1].bytes];
        broken(path.clone(), CostsFileRule::Unsorted { path, bytes, before })
    }
}

/// What goes from stage to stage goes from rank to rank, since nothing is sent within one; a weight has two uses.
fn check_ranks(path: String, kind: MessageKind, ranks: u64) -> Result<(), Broken> {
    check_count(&path, ranks)?;
    match kind {
        MessageKind::Activation | MessageKind::Gradient if ranks != 2 => {
            broken(path.clone(), CostsFileRule::NoPair { path, kind, ranks })
        }
        MessageKind::AddTied if ranks > 2 => broken(path.clone(), CostsFileRule::TiedRanks { path, ranks }),
        MessageKind::Activation
        | MessageKind::Gradient
        | MessageKind::AddTied
        | MessageKind::Unshard
        | MessageKind::GatherAfterStep
        | MessageKind::Reduce
        | MessageKind::ReduceLast
        | MessageKind::AllReduce
        | MessageKind::GradientNorm => Ok(()),
    }
}

/// There is at least one of everything that is counted.
fn check_count(path: &str, found: u64) -> Result<(), Broken> {
    if found > 0 { Ok(()) } else { broken(path, CostsFileRule::None { path: path.to_owned() }) }
}

/// Names are printed: they are of something, and no commands to a terminal.
fn check_name(path: &str, name: &str) -> Result<(), Broken> {
    if name.is_empty() {
        return broken(path, CostsFileRule::NoName { path: path.to_owned() });
    }
    match name.chars().find(|character| character.is_control()) {
        Some(control) => broken(path, CostsFileRule::Unprintable { path: path.to_owned(), control }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
