//! `parallel.partition`: which layers each stage gets.

use crate::config::findings::Findings;
use crate::config::kind::Either;
use crate::config::partition_method::PartitionMethod;
use crate::config::place::Place;
use crate::config::raw::RawParallel;
use crate::config::resolved::PartitionConfig;
use crate::config::words::{Unoffered, refuse};
use crate::files::json::shorten;

use super::counted::counted;

/// DeepSpeed's others, which measure or guess where `"balanced"` computes.
const NEVER: Unoffered = Unoffered { later: &[], never: &["profile", "best"] };

pub(super) fn resolve(
    raw: &RawParallel,
    num_stages: Option<usize>,
    num_layers: Option<usize>,
    findings: &mut Findings,
) -> Option<PartitionConfig> {
    let place = &raw.partition.place;
    match raw.partition.or(Either::First(PartitionMethod::Balanced))? {
        Either::First(PartitionMethod::Balanced) => Some(PartitionConfig::Balanced),
        Either::First(PartitionMethod::Uniform) => Some(PartitionConfig::Uniform),
        Either::First(PartitionMethod::Parameters) => Some(PartitionConfig::Parameters),
        Either::First(PartitionMethod::Type(pattern)) => by_type(place, pattern, findings),
        Either::First(PartitionMethod::Other(word)) => {
            refuse(findings, place, &word, PartitionMethod::OFFERED, &NEVER);
            None
        }
        Either::Second(layers) => manual(place, layers, num_stages, num_layers, findings),
    }
}

/// The pattern is compiled here so that its mistakes have a place; whether a layer matches is known with the model.
fn by_type(place: &Place, pattern: String, findings: &mut Findings) -> Option<PartitionConfig> {
    let value = format!("\"type:{}\"", shorten(&pattern));
    if pattern.is_empty() {
        let rule = "it names no layers: a regular expression follows the colon";
        findings.broken(place, value, rule, "use one such as \"type:block\"");
        return None;
    }
    if let Err(error) = regex::RegexBuilder::new(&pattern).case_insensitive(true).build() {
        // The crate draws the pattern over several lines and names the mistake on the last.
        let error = error.to_string();
        let reason = error.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let rule = format!("that is no regular expression: {}", reason.trim_end_matches('.'));
        findings.broken(place, value, rule, "correct it, or use \"balanced\"");
        return None;
    }
    Some(PartitionConfig::Type(pattern))
}

fn manual(
    place: &Place,
    layers: Vec<usize>,
    num_stages: Option<usize>,
    num_layers: Option<usize>,
    findings: &mut Findings,
) -> Option<PartitionConfig> {
    let value = shorten(&format!("{layers:?}"));
    if let Some(stages) = num_stages.filter(|&stages| stages != layers.len()) {
        let rule = format!("the pipeline has {}: the list has one number for each", counted(stages, "stage"));
        findings.broken(place, value, rule, format!("write {}", counted(stages, "number")));
        return None;
    }
    if let Some(stage) = layers.iter().position(|&layers| layers == 0) {
        let rule = format!("stage {stage} would have no layer: every stage needs at least one");
        findings.broken(place, value, rule, "use 1 or more for each");
        return None;
    }
    let sum = layers.iter().try_fold(0_usize, |sum, &layers| sum.checked_add(layers));
    if let Some(num_layers) = num_layers.filter(|&num_layers| sum != Some(num_layers)) {
        let sum = sum.map_or_else(|| "more than 2^64".to_owned(), |sum| sum.to_string());
        let rule = format!("its sum is {sum} and `model.num_layers` is {num_layers}");
        findings.broken(place, value, rule, format!("use numbers with sum {num_layers}"));
        return None;
    }
    Some(PartitionConfig::Manual(layers))
}
