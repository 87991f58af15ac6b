//! The three batch keys, one equation:
//! `train_batch_size = train_micro_batch_size_per_gpu * gradient_accumulation_steps * data degree`.
//!
//! As in DeepSpeed, any two imply the third, and one of the first two alone implies one micro-batch per step.

use crate::config::findings::Findings;
use crate::config::kind::Auto;
use crate::config::place::Place;
use crate::config::raw::RawRun;
use crate::config::resolved::BatchConfig;
use crate::config::section::Field;

use super::rules::at_least_one;

const TRAIN: &str = "train_batch_size";
const MICRO: &str = "`train_micro_batch_size_per_gpu`";
const STEPS: &str = "`gradient_accumulation_steps`";

/// Resolves the equation for data degree `data`; `None` leaves only the keys' own rules to check.
pub(super) fn resolve(raw: &RawRun, data: Option<usize>, findings: &mut Findings) -> Option<BatchConfig> {
    // A key of the wrong type is not the same as an absent one: nothing follows from the others then.
    let train = known(&raw.train_batch_size, findings);
    let micro = known(&raw.train_micro_batch_size_per_gpu, findings);
    let steps = known(&raw.gradient_accumulation_steps, findings);
    let (train, micro, steps) = (train?, micro?, steps?);
    if train.is_none() && micro.is_none() {
        no_size(raw, findings);
        return None;
    }
    let equation = Equation { raw, data: data? };
    match (train, micro, steps) {
        (Some(train), Some(micro), Some(steps)) => equation.all(train, micro, steps, findings),
        (Some(train), Some(micro), None) => equation.without_steps(train, micro, findings),
        (Some(train), None, steps) => equation.without_micro(train, steps, findings),
        (None, Some(micro), steps) => equation.without_train(micro, steps.unwrap_or(1), findings),
        (None, None, _) => None,
    }
}

/// Neither batch size is a number: `"auto"`, as Hugging Face's files have it, is reported where it stands.
fn no_size(raw: &RawRun, findings: &mut Findings) {
    let sizes = [&raw.train_batch_size, &raw.train_micro_batch_size_per_gpu];
    if let Some(auto) = sizes.into_iter().find(|field| field.is_written()) {
        let rule = format!(
            "one of `{TRAIN}` and {MICRO} must be a number: no trainer fills them in here, and nothing else says how large \
             a batch is"
        );
        findings.broken(&auto.place, "\"auto\"", rule, "write a number for one of the two");
        return;
    }
    let repair = format!("add `{TRAIN}` or {MICRO}");
    let place = Place { path: TRAIN.to_owned(), ..raw.head.place.clone() };
    findings.missing(&place, "one of the two batch sizes is needed", &repair);
}

/// `Some(None)` is absent or `"auto"`; `None` is a mistake that is reported.
fn known(field: &Field<Auto<usize>>, findings: &mut Findings) -> Option<Option<usize>> {
    match field.or(Auto::Auto)?.value() {
        Some(value) => at_least_one(field, Some(value), findings).map(Some),
        None => Some(None),
    }
}

struct Equation<'a> {
    raw: &'a RawRun,
    data: usize,
}

impl Equation<'_> {
    fn all(&self, train: usize, micro: usize, steps: usize, findings: &mut Findings) -> Option<BatchConfig> {
        let product = self.product(micro, steps, findings)?;
        if product != train {
            let rule = format!("{MICRO} {micro} x {STEPS} {steps} x data degree {} = {product}", self.data);
            let repair = format!("use {product}, or leave one of the three out");
            findings.broken(&self.raw.train_batch_size.place, train, rule, repair);
            return None;
        }
        Some(BatchConfig { train_batch_size: train, micro_batch_size: micro, num_micro_batches: steps })
    }

    fn without_steps(&self, train: usize, micro: usize, findings: &mut Findings) -> Option<BatchConfig> {
        let share = self.product(micro, 1, findings)?;
        let steps = self.quotient(
            train,
            share,
            &format!("{MICRO} {micro} x data degree {} = {share}", self.data),
            findings,
        )?;
        Some(BatchConfig { train_batch_size: train, micro_batch_size: micro, num_micro_batches: steps })
    }

    fn without_micro(
        &self,
        train: usize,
        steps: Option<usize>,
        findings: &mut Findings,
    ) -> Option<BatchConfig> {
        let data = self.data;
        let factors = match steps {
            Some(steps) => format!("{STEPS} {steps} x data degree {data} = {}", steps.saturating_mul(data)),
            None => format!("data degree {data}"),
        };
        let steps = steps.unwrap_or(1);
        let share = self.product(1, steps, findings)?;
        let micro = self.quotient(train, share, &factors, findings)?;
        Some(BatchConfig { train_batch_size: train, micro_batch_size: micro, num_micro_batches: steps })
    }

    fn without_train(&self, micro: usize, steps: usize, findings: &mut Findings) -> Option<BatchConfig> {
        let train = self.product(micro, steps, findings)?;
        Some(BatchConfig { train_batch_size: train, micro_batch_size: micro, num_micro_batches: steps })
    }

    /// `micro * steps * data`, if a step of so many sequences can be counted.
    fn product(&self, micro: usize, steps: usize, findings: &mut Findings) -> Option<usize> {
        let product = micro.checked_mul(steps).and_then(|product| product.checked_mul(self.data));
        if product.is_none() {
            let field = if micro > 1 {
                &self.raw.train_micro_batch_size_per_gpu
            } else {
                &self.raw.gradient_accumulation_steps
            };
            let value = if micro > 1 { micro } else { steps };
            let rule =
                format!("{MICRO} {micro} x {STEPS} {steps} x data degree {} is more than 2^64", self.data);
            findings.broken(&field.place, value, rule, "use smaller numbers");
        }
        product
    }

    /// `train / share`, which must leave no rest.
    fn quotient(&self, train: usize, share: usize, factors: &str, findings: &mut Findings) -> Option<usize> {
        if !train.is_multiple_of(share) {
            let rule = format!("{factors} does not divide it: every data rank gets the same share");
            let multiple = (train / share).max(1).saturating_mul(share);
            findings.broken(
                &self.raw.train_batch_size.place,
                train,
                rule,
                format!("use a multiple such as {multiple}"),
            );
            return None;
        }
        Some(train / share)
    }
}
