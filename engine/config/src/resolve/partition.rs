//! `parallel.partition`: which layers each stage gets.

use pipezero_files::json::shorten;

use crate::raw::RawParallel;
use crate::resolved::PartitionConfig;

use super::counted::counted;

/// A list must have a number for each stage and, in all, the layers of the model.
pub(super) fn resolve(
    raw: &RawParallel,
    num_stages: Option<usize>,
    num_layers: Option<usize>,
) -> Option<PartitionConfig> {
    let field = &raw.partition;
    let partition = field.or(PartitionConfig::Balanced)?;
    let PartitionConfig::Manual(layers) = &partition else { return Some(partition) };
    let value = shorten(&format!("{layers:?}"));
    if let Some(stages) = num_stages.filter(|&stages| stages != layers.len()) {
        let rule = format!("the pipeline has {}: the list has one number for each", counted(stages, "stage"));
        return field.broken(value, rule, format!("write {}", counted(stages, "number")));
    }
    if let Some(stage) = layers.iter().position(|&layers| layers == 0) {
        let rule = format!("stage {stage} would have no layer: every stage needs at least one");
        return field.broken(value, rule, "use 1 or more for each");
    }
    let sum = layers.iter().try_fold(0_usize, |sum, &layers| sum.checked_add(layers));
    if let Some(num_layers) = num_layers.filter(|&num_layers| sum != Some(num_layers)) {
        let sum = sum.map_or_else(|| "more than 2^64".to_owned(), |sum| sum.to_string());
        let rule = format!("its sum is {sum} and `model.num_layers` is {num_layers}");
        return field.broken(value, rule, format!("use numbers with sum {num_layers}"));
    }
    Some(partition)
}
