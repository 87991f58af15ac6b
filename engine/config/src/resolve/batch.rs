//! The three batch keys, one equation:
//! `train_batch_size = train_micro_batch_size_per_gpu * gradient_accumulation_steps * data degree`.
//!
//! As in DeepSpeed, any two imply the third, and one of the first two alone implies one micro-batch per step.
//!
//! A resumed run keeps the sequences of its steps: where the file says micro-batches, whose product with another data degree would be another
//! step, there are as many of them as make the step that it was.

use crate::batch_keys::BatchKeys;
use crate::findings::Site;
use crate::place::Place;
use crate::raw::RawRun;
use crate::resolved::BatchConfig;

use super::rules::count_or_auto;

const TRAIN: &str = "train_batch_size";
const MICRO: &str = "`train_micro_batch_size_per_gpu`";
const STEPS: &str = "`gradient_accumulation_steps`";

/// Resolves the equation for data degree `data`; `None` leaves only the keys' own rules to check. A resumed run keeps `kept` sequences in a
/// step, unless the file says another number of them.
pub(super) fn resolve(raw: &RawRun, data: Option<usize>, kept: Option<usize>) -> Option<BatchConfig> {
    // A key of the wrong type is not the same as an absent one: nothing follows from the others then.
    let train = count_or_auto(&raw.train_batch_size);
    let micro = count_or_auto(&raw.train_micro_batch_size_per_gpu);
    let steps = count_or_auto(&raw.gradient_accumulation_steps);
    let (train, micro, steps) = (train?, micro?, steps?);
    if train.is_none() && micro.is_none() {
        return no_size(raw);
    }
    let data = data?;
    if let Some(kept) = kept
        && let Some(micro) = (BatchKeys { train, micro, steps }).micro_of_kept(kept)
    {
        return keep(raw, kept, micro, data);
    }
    let product = |micro: usize, steps: usize| product(raw, micro, steps, data);
    let (train_batch_size, micro_batch_size, num_micro_batches) = match (train, micro, steps) {
        (Some(train), Some(micro), Some(steps)) => {
            let product = product(micro, steps)?;
            if product != train {
                let rule = format!("{MICRO} {micro} x {STEPS} {steps} x data degree {data} = {product}");
                let of_degree = of_another_degree(raw, train, product, data);
                let repair = format!("{of_degree}use {product}, or leave one of the three out");
                return raw.train_batch_size.broken(train, rule, repair);
            }
            (train, micro, steps)
        }
        (Some(train), Some(micro), None) => {
            let share = product(micro, 1)?;
            let factors = format!("{MICRO} {micro} x data degree {data} = {share}");
            (train, micro, quotient(raw, train, share, &factors)?)
        }
        (Some(train), None, steps) => {
            let factors = match steps {
                Some(steps) => {
                    format!("{STEPS} {steps} x data degree {data} = {}", steps.saturating_mul(data))
                }
                None => format!("data degree {data}"),
            };
            let steps = steps.unwrap_or(1);
            (train, quotient(raw, train, product(1, steps)?, &factors)?, steps)
        }
        (None, micro, steps) => {
            let (micro, steps) = (micro?, steps.unwrap_or(1));
            (product(micro, steps)?, micro, steps)
        }
    };
    raw.train_batch_size.became(train_batch_size);
    raw.train_micro_batch_size_per_gpu.became(micro_batch_size);
    raw.gradient_accumulation_steps.became(num_micro_batches);
    Some(BatchConfig { train_batch_size, micro_batch_size, num_micro_batches })
}

/// A step of `kept` sequences, in as many micro-batches as that takes.
fn keep(raw: &RawRun, kept: usize, micro: usize, data: usize) -> Option<BatchConfig> {
    let share = product(raw, micro, 1, data)?;
    if !kept.is_multiple_of(share) {
        let rule = format!(
            "{micro} x data degree {data} = {share} does not divide {kept}, the sequences of a step that the resumed run keeps"
        );
        let fitting = (1..=micro).rev().find(|micro| kept.is_multiple_of(micro.saturating_mul(data)));
        let fitting = fitting.map_or_else(
            || format!("use a data degree that divides {kept}"),
            |fitting| format!("write {fitting}, or use another data degree"),
        );
        let repair =
            format!("{fitting}; for steps of another size add --set {}", of_another_size(raw, share)?);
        return raw.train_micro_batch_size_per_gpu.broken(micro, rule, repair);
    }
    let steps = kept / share;
    let field = &raw.gradient_accumulation_steps;
    if count_or_auto(field)?.unwrap_or(1) != steps {
        field.site.hint(format!(
            "{steps} is used: steps of the resumed run keep their {kept} sequences, {steps} x {MICRO} {micro} x data degree {data}; for steps of \
             another size add --set {}",
            of_another_size(raw, share)?
        ));
    }
    raw.train_batch_size.became(kept);
    raw.train_micro_batch_size_per_gpu.became(micro);
    field.became(steps);
    Some(BatchConfig { train_batch_size: kept, micro_batch_size: micro, num_micro_batches: steps })
}

/// The argument with which a step has the micro-batches that the file says.
fn of_another_size(raw: &RawRun, share: usize) -> Option<String> {
    let steps = count_or_auto(&raw.gradient_accumulation_steps)?.unwrap_or(1);
    let train = count_or_auto(&raw.train_batch_size)?;
    Some(match train {
        Some(_) => format!("{TRAIN}={}", share.saturating_mul(steps)),
        None => format!("gradient_accumulation_steps={steps}"),
    })
}

/// Neither batch size is a number: `"auto"`, as Hugging Face's files have it, is reported where it stands.
fn no_size<T>(raw: &RawRun) -> Option<T> {
    let sizes = [&raw.train_batch_size, &raw.train_micro_batch_size_per_gpu];
    if let Some(auto) = sizes.into_iter().find(|field| field.is_written()) {
        let rule = format!(
            "one of `{TRAIN}` and {MICRO} must be a number: no trainer fills them in here, and nothing else says how large \
             a batch is"
        );
        return auto.broken("\"auto\"", rule, "write a number for one of the two");
    }
    let place = Place { path: TRAIN.to_owned(), ..raw.head.site.place.clone() };
    let site = Site { place, ..raw.head.site.clone() };
    site.missing("one of the two batch sizes is needed", &format!("add `{TRAIN}` or {MICRO}"))
}

/// Where the batch fits a larger data degree: a file of DeepSpeed, whose launcher knows the number of ranks, has no other sign of it.
fn of_another_degree(raw: &RawRun, train: usize, product: usize, data: usize) -> String {
    if product == 0 || raw.parallel.data.is_written() || !train.is_multiple_of(product) {
        return String::new();
    }
    format!("write \"parallel\": {{\"data\": {}}}, for which the batch was made, or ", train / product * data)
}

/// `micro * steps * data`, if a step of so many sequences can be counted.
fn product(raw: &RawRun, micro: usize, steps: usize, data: usize) -> Option<usize> {
    let product = micro.checked_mul(steps).and_then(|product| product.checked_mul(data));
    product.or_else(|| {
        let rule = format!("{MICRO} {micro} x {STEPS} {steps} x data degree {data} is more than 2^64");
        let (field, value) = match micro {
            1 => (&raw.gradient_accumulation_steps, steps),
            _ => (&raw.train_micro_batch_size_per_gpu, micro),
        };
        field.broken(value, rule, "use smaller numbers")
    })
}

/// `train / share`, which must leave no rest.
fn quotient(raw: &RawRun, train: usize, share: usize, factors: &str) -> Option<usize> {
    if train.is_multiple_of(share) {
        return Some(train / share);
    }
    let rule = format!("{factors} does not divide it: every data rank gets the same share");
    let multiple = (train / share).max(1).saturating_mul(share);
    raw.train_batch_size.broken(train, rule, format!("use a multiple such as {multiple}"))
}
