//! The Kullback-Leibler divergence of a student's softmax from a teacher's, both at a temperature, over each row of logits, and cross-entropy
//! beside it.
//!
//! Legend: N rows, V columns; `logits, teacher: [N, V]`, `targets: [N]`. A row whose target is [`IGNORED_TARGET`] has no loss and no gradient.
//!
//! With `q = softmax(teacher / T)` and `p = softmax(logits / T)`, the divergence of a row is `sum of q (ln q - ln p)`, and its gradient with respect
//! to a logit `(p - q) / T` (Hinton, Vinyals and Dean, "Distilling the Knowledge in a Neural Network", arXiv:1503.02531, section 2.1).

use crate::memory::{View, ViewMut};
use crate::micro_batch::{IGNORED_TARGET, LossSum};

use super::cross_entropy::NUM_STATISTICS;
use super::exp::exp;
use super::parallel::{for_blocks, read, width_of, write};
use super::row;

/// What is kept of a row: the logarithms of the student's and of the teacher's summed exponentials at the temperature, and the divergence.
pub const NUM_KEPT: usize = 3;

/// By what the gradient's two terms are weighed.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    /// What the gradient of the cross-entropy is multiplied by.
    pub cross_entropy: f32,
    /// What `p - q` is multiplied by.
    pub divergence: f32,
}

/// [`forward`] as a kernel of the host over `logits`, `teacher` and `targets`, which writes `kept` and weighs the words of a loss, the summed
/// cross-entropy, against the divergence by `alpha`; the words behind it become cross-entropy and divergence. The loss is empty where it is not
/// asked for.
pub(crate) fn forward_on_host(
    temperature: f64,
    alpha: f64,
) -> impl FnOnce(&[View<'_>], Vec<ViewMut<'_>>) + Send + 'static {
    move |reads, writes| {
        let [logits, teacher, targets] = reads else { unreachable!("three are given") };
        let [kept, loss] = <[ViewMut<'_>; 2]>::try_from(writes).expect("two are given");
        let (logits, teacher, targets) = (logits.slice(), teacher.slice(), targets.slice());
        let divergence = forward(temperature as f32, logits, teacher, targets, kept.slice());
        if let [loss, parts @ ..] = loss.slice::<u32>().as_chunks_mut().0 {
            let LossSum { sum: cross_entropy, num_targets } = LossSum::from_words(*loss);
            let of = |sum: f64| LossSum { sum, num_targets }.to_words();
            *loss = of((1.0 - alpha) * cross_entropy + alpha * temperature * temperature * divergence);
            for (part, sum) in parts.iter_mut().zip([cross_entropy, divergence]) {
                *part = of(sum);
            }
        }
    }
}

/// [`backward`] as a kernel of the host over `teacher`, `targets`, `statistics` and `kept`, which writes `logits`.
pub(crate) fn backward_on_host(
    temperature: f64,
    seeds: Seeds,
) -> impl FnOnce(&[View<'_>], Vec<ViewMut<'_>>) + Send + 'static {
    move |reads, writes| {
        let [teacher, targets, statistics, kept] = reads else { unreachable!("four are given") };
        let kept = (statistics.slice(), kept.slice());
        for logits in writes {
            backward((temperature as f32, seeds), logits.slice(), teacher.slice(), targets.slice(), kept);
        }
    }
}

/// The divergence of each row and what its gradient needs, `kept: [N, NUM_KEPT]`; the sum over the rows that count, in row order.
pub fn forward(temperature: f32, logits: &[f32], teacher: &[f32], targets: &[u32], kept: &mut [f32]) -> f64 {
    let width = width_of(logits.len(), targets.len());
    for_blocks(
        (write(kept, NUM_KEPT), read(logits, width), read(teacher, width)),
        #[inline(always)]
        |(kept, logits, teacher)| {
            let rows = logits.elements.chunks_exact(width).zip(teacher.elements.chunks_exact(width));
            for (kept, (student, teacher)) in kept.elements.as_chunks_mut().0.iter_mut().zip(rows) {
                *kept = divergence(1.0 / temperature, student, teacher);
            }
        },
    );
    let rows = kept.as_chunks::<NUM_KEPT>().0.iter().zip(targets);
    rows.filter(|&(_, &target)| target != IGNORED_TARGET)
        .map(|([.., divergence], _)| f64::from(*divergence))
        .sum()
}

/// [`NUM_KEPT`] of a row.
#[inline(always)]
fn divergence(inverse: f32, student: &[f32], teacher: &[f32]) -> [f32; NUM_KEPT] {
    let (of_student, of_teacher) = (log_sum_exp(inverse, student), log_sum_exp(inverse, teacher));
    let term = |(x, z): (&f32, &f32)| {
        let (ln_p, ln_q) = (x * inverse - of_student, z * inverse - of_teacher);
        f64::from(exp(ln_q)) * f64::from(ln_q - ln_p)
    };
    [of_student, of_teacher, student.iter().zip(teacher).map(term).sum::<f64>() as f32]
}

/// `ln(sum of exp(x / T))` of a row.
#[inline(always)]
fn log_sum_exp(inverse: f32, row: &[f32]) -> f32 {
    let max = row::max(row);
    let sum = row::sum(
        row,
        #[inline(always)]
        |x| exp((x - max) * inverse),
    );
    (f64::from(max * inverse) + f64::from(sum).ln()) as f32
}

/// The logits become their gradient, zero where the target is ignored. `statistics: [N, NUM_STATISTICS]` are those of the
/// [cross-entropy](super::cross_entropy), once its loss was taken; `kept` is as [`forward`] left it.
pub fn backward(
    (temperature, seeds): (f32, Seeds),
    logits: &mut [f32],
    teacher: &[f32],
    targets: &[u32],
    (statistics, kept): (&[f32], &[f32]),
) {
    let (width, inverse) = (width_of(logits.len(), targets.len()), 1.0 / temperature);
    for_blocks(
        (
            write(logits, width),
            read(teacher, width),
            read(statistics, NUM_STATISTICS),
            read(kept, NUM_KEPT),
            read(targets, 1),
        ),
        #[inline(always)]
        |(logits, teacher, statistics, kept, targets)| {
            let kept = statistics
                .elements
                .as_chunks::<NUM_STATISTICS>()
                .0
                .iter()
                .zip(kept.elements.as_chunks::<NUM_KEPT>().0);
            let rows = logits.elements.chunks_exact_mut(width).zip(teacher.elements.chunks_exact(width));
            for ((row, teacher), (([log_sum_exp, ..], [of_student, of_teacher, _]), &target)) in
                rows.zip(kept.zip(targets.elements))
            {
                if target == IGNORED_TARGET {
                    row.fill(0.0);
                    continue;
                }
                for (column, (x, z)) in row.iter_mut().zip(teacher).enumerate() {
                    let (p, q) = (exp(*x * inverse - of_student), exp(z * inverse - of_teacher));
                    let mut cross_entropy = seeds.cross_entropy * exp(*x - log_sum_exp);
                    if column == target as usize {
                        cross_entropy -= seeds.cross_entropy;
                    }
                    *x = cross_entropy + seeds.divergence * (p - q);
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::cross_entropy;
    use crate::testing::{assert_close, random, same_on_all_threads};

    fn softmax(row: &[f32], temperature: f64) -> Vec<f64> {
        let exponentials: Vec<f64> = row.iter().map(|&x| (f64::from(x) / temperature).exp()).collect();
        let sum: f64 = exponentials.iter().sum();
        exponentials.into_iter().map(|e| e / sum).collect()
    }

    fn drawn(num_rows: usize, width: usize) -> (Vec<f32>, Vec<f32>, Vec<u32>) {
        let [student, teacher] = ["student", "teacher"]
            .map(|name| random(name, num_rows * width).iter().map(|x| 3.0 * x).collect());
        let target = |row: usize| if row % 3 == 2 { IGNORED_TARGET } else { (row * 701 % width) as u32 };
        (student, teacher, (0..num_rows).map(target).collect())
    }

    #[test]
    fn divergence_and_gradient_equal_the_definition_in_f64() {
        for (num_rows, width, temperature) in [(1, 1, 1.0), (4, 2, 0.5), (5, 37, 2.0), (4, 1500, 4.0)] {
            let (student, teacher, targets) = drawn(num_rows, width);
            let mut kept = vec![f32::NAN; NUM_KEPT * num_rows];
            let sum = forward(temperature, &student, &teacher, &targets, &mut kept);
            let mut statistics = vec![f32::NAN; NUM_STATISTICS * num_rows];
            cross_entropy::forward(0, &student, &targets, &mut statistics);
            cross_entropy::loss(&targets, &mut statistics);
            let mut gradient = student.clone();
            let seeds = Seeds { cross_entropy: 0.25, divergence: 0.75 };
            backward((temperature, seeds), &mut gradient, &teacher, &targets, (&statistics, &kept));
            let (mut wanted_sum, mut wanted) = (0.0, Vec::new());
            for (row, &target) in targets.iter().enumerate() {
                let of = |logits: &[f32], temperature| softmax(&logits[row * width..][..width], temperature);
                let [p, q] = [&student, &teacher].map(|logits| of(logits, f64::from(temperature)));
                let hard = of(&student, 1.0);
                let counts = f64::from(u8::from(target != IGNORED_TARGET));
                wanted_sum += counts * q.iter().zip(&p).map(|(q, p)| q * (q / p).ln()).sum::<f64>();
                wanted.extend((0..width).map(|column| {
                    let one_hot = f64::from(u8::from(column == target as usize));
                    counts * (0.25 * (hard[column] - one_hot) + 0.75 * (p[column] - q[column]))
                }));
            }
            assert!((sum - wanted_sum).abs() <= 2e-6 * wanted_sum.max(1.0), "{sum} is not {wanted_sum}");
            // Probabilities within a few units of their last place.
            let [got, wanted] =
                [gradient.iter().map(|x| f64::from(*x)).collect(), wanted].map(|of: Vec<f64>| of);
            let got: Vec<f32> = got.iter().map(|x| *x as f32 + 1.0).collect();
            let wanted: Vec<f64> = wanted.iter().map(|x| x + 1.0).collect();
            assert_close("gradient", &got, &wanted, 2e-6);
        }
    }

    #[test]
    fn a_student_that_says_what_its_teacher_says_has_no_divergence() {
        let (student, _, targets) = drawn(5, 37);
        let mut kept = vec![f32::NAN; NUM_KEPT * 5];
        assert_eq!(forward(2.0, &student, &student, &targets, &mut kept), 0.0);
    }

    #[test]
    fn results_do_not_depend_on_the_number_of_threads() {
        let (student, teacher, targets) = drawn(150, 333);
        same_on_all_threads("distillation", || {
            let (mut kept, mut gradient) = (vec![f32::NAN; NUM_KEPT * 150], student.clone());
            let sum = forward(3.0, &student, &teacher, &targets, &mut kept);
            let statistics = vec![1.0; NUM_STATISTICS * 150];
            let seeds = Seeds { cross_entropy: 0.5, divergence: 0.5 };
            backward((3.0, seeds), &mut gradient, &teacher, &targets, (&statistics, &kept));
            [kept, gradient, vec![sum as f32]].concat()
        });
    }
}
