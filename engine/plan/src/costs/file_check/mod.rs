//! Rules of a costs file beyond its JSON: nothing is missing or empty, and nothing stands twice.

use super::file::{CostsFile, MessageTimes, PerElement, UnitTimes};
use super::file_error::{CostsFileRule, KeyFault};
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

/// As [`broken`], of a rule that names its key.
fn broken_at(path: impl Into<String>, fault: KeyFault) -> Result<(), Broken> {
    let path = path.into();
    broken(path.clone(), CostsFileRule::Key { path, fault })
}

impl CostsFile {
    /// Holds every rule against the file.
    pub(super) fn check(&self) -> Result<(), Broken> {
        check_name("host.name", &self.host.name)?;
        check_count("host.cores", self.host.cores)?;
        check_count("host.ranks", self.host.ranks)?;
        if let Some(gpus) = &self.host.gpus {
            check_name("host.gpus", gpus)?;
        }
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
            let key = |of: &UnitTimes| {
                (of.layers.clone(), of.parameters, of.frozen, of.frozen_parameters, of.has_backward())
            };
            let is_same = |other: &UnitTimes| key(other) == key(unit);
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
            return broken_at(format!("{path}.layers"), KeyFault::NoLayers);
        }
        for (index, layer) in self.layers.iter().enumerate() {
            let path = format!("{path}.layers[{index}]");
            check_name(&path, layer)?;
            let expected = kind(layer);
            if expected != *layer {
                return broken_at(path, KeyFault::LayerNumber { layer: layer.clone(), expected });
            }
        }
        let layers = self.layers.clone();
        if self.frozen_parameters > 0 && (self.frozen || self.frozen_parameters >= self.parameters) {
            let (num_frozen, parameters) = (self.frozen_parameters, self.parameters);
            return broken(path, CostsFileRule::FrozenPart { layers, num_frozen, parameters });
        }
        match (self.backward_ns, self.backward_input_ns, self.backward_weight_ns) {
            (_, Some(_), None) | (_, None, Some(_)) => {
                return broken(path, CostsFileRule::OneHalf { layers });
            }
            // In front of all that is trained.
            (None, None, None) if self.frozen => {}
            (None, None, None) => return broken(path, CostsFileRule::NoBackward { layers }),
            (Some(_), None, None) | (_, Some(_), Some(_)) => {}
        }
        for (key, part) in [("gradient_norm", self.gradient_norm), ("optimizer_step", self.optimizer_step)] {
            let PerElement { elements, ns } = part;
            if elements == 0 && ns > 0 {
                return broken_at(format!("{path}.{key}.elements"), KeyFault::NoElements { ns });
            }
        }
        Ok(())
    }
}

impl MessageTimes {
    fn check(&self, path: &str) -> Result<(), Broken> {
        check_ranks(format!("{path}.ranks"), self.kind, self.ranks)?;
        if self.sizes.is_empty() {
            return broken_at(format!("{path}.sizes"), KeyFault::NoSizes);
        }
        for (index, size) in self.sizes.iter().enumerate() {
            check_count(&format!("{path}.sizes[{index}].bytes"), size.bytes)?;
        }
        let unsorted = self.sizes.windows(2).position(|pair| pair[0].bytes >= pair[1].bytes);
        let Some(index) = unsorted else { return Ok(()) };
        let [before, bytes] = [self.sizes[index].bytes, self.sizes[index + 1].bytes];
        broken_at(format!("{path}.sizes[{}].bytes", index + 1), KeyFault::Unsorted { bytes, before })
    }
}

/// What goes from stage to stage goes from rank to rank, since nothing is sent within one; a weight has two uses.
fn check_ranks(path: String, kind: MessageKind, ranks: u64) -> Result<(), Broken> {
    check_count(&path, ranks)?;
    if kind.is_transfer() && ranks != 2 {
        return broken_at(path, KeyFault::NoPair { kind, ranks });
    }
    if kind == MessageKind::AddTied && ranks > 2 {
        return broken_at(path, KeyFault::TiedRanks { ranks });
    }
    Ok(())
}

/// A count is at least 1.
fn check_count(path: &str, found: u64) -> Result<(), Broken> {
    if found > 0 { Ok(()) } else { broken_at(path, KeyFault::None) }
}

/// Names are printed: they are not empty, and have no control characters, which a terminal would obey.
fn check_name(path: &str, name: &str) -> Result<(), Broken> {
    if name.is_empty() {
        return broken_at(path, KeyFault::NoName);
    }
    match name.chars().find(|character| character.is_control()) {
        Some(control) => broken_at(path, KeyFault::Unprintable { control }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
