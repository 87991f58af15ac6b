//! Progress on stderr: a bar on a terminal, plain lines otherwise.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use pipezero_files::printable::printable;
use pipezero_run::checkpoint::CheckpointError;
use pipezero_run::engine::{EngineError, LossPart};
use pipezero_train::{EvalLine, Observer, StepLine, Work};

use super::output::{ProcessOutput, is_silent, keep};
use super::terminal;

/// Shows the progress of a run.
#[derive(Debug)]
pub(super) struct Progress {
    /// What each line begins with: the name of an engine among others.
    of: String,
    output: ProcessOutput,
    /// A bar that redraws itself, where a person sees it.
    bar: Option<ProgressBar>,
    /// Of plain lines: on the screen if there is no bar, and in the log of this process.
    pace: Pace,
    num_steps: u64,
    /// What the bar says of the last step.
    figures: String,
    /// Whether the run has a loss to show; else the time of a step is shown.
    learns: bool,
}

/// When plain lines are due.
#[derive(Debug)]
pub(super) struct Pace {
    next_line: Instant,
}

impl Pace {
    /// Time between plain lines, so that a log stays readable.
    const LINE_EVERY: Duration = Duration::from_secs(5);

    /// The first line is due at once.
    pub(super) fn at_once() -> Self {
        Self { next_line: Instant::now() }
    }

    /// The first line is due when work has taken a while.
    pub(super) fn later() -> Self {
        Self { next_line: Instant::now() + Self::LINE_EVERY }
    }

    /// Whether a plain line is due. The next is then due a while later.
    pub(super) fn is_line_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = now >= self.next_line;
        if is_due {
            self.next_line = now + Self::LINE_EVERY;
        }
        is_due
    }
}

/// A bar of this length that redraws itself, where a person sees it.
pub(super) fn bar(length: u64, template: &str) -> Option<ProgressBar> {
    let style = ProgressStyle::with_template(template).expect("templates are constant and valid");
    (!is_silent() && stderr().is_terminal()).then(|| ProgressBar::new(length).with_style(style))
}

impl Progress {
    /// The progress of a run of so many steps, of which some may have been done before; `learns`: whether it has a loss.
    pub(super) fn new(num_done: u64, num_steps: u64, learns: bool) -> Self {
        let bar = bar(num_steps, "{bar:20} {pos}/{len} steps  {msg}  ETA {eta}");
        Self::with(String::new(), ProcessOutput::of_this(), bar, [num_done, num_steps], learns)
    }

    /// The progress of an engine among others, in lines that begin with its name: bars of several would redraw each other.
    pub(super) fn of_engine(
        name: &str,
        output: ProcessOutput,
        num_done: u64,
        num_steps: u64,
        learns: bool,
    ) -> Self {
        Self::with(format!("{name}: "), output, None, [num_done, num_steps], learns)
    }

    fn with(
        of: String,
        output: ProcessOutput,
        bar: Option<ProgressBar>,
        [num_done, num_steps]: [u64; 2],
        learns: bool,
    ) -> Self {
        let progress =
            Self { of, output, bar, pace: Pace::at_once(), num_steps, figures: String::new(), learns };
        // A first step may take minutes. A run may be resumed after its last one.
        match num_done {
            0 => progress.print_unless_bar(&format!("the first of {num_steps} steps begins")),
            done if done < num_steps => {
                progress.print_unless_bar(&format!("step {} of {num_steps} begins", done + 1));
            }
            _ => {}
        }
        progress
    }

    /// A line of its own, above the bar.
    fn print_line(&self, text: &str) {
        let text = terminal::fitted(&format!("{}{text}", self.of));
        match &self.bar {
            Some(bar) => {
                keep(&text);
                bar.println(printable(&text));
            }
            None => self.output.note(text),
        }
    }

    /// A line for the log, and for the screen where no bar shows the same.
    fn print_unless_bar(&self, text: &str) {
        match &self.bar {
            Some(bar) => {
                keep(text);
                bar.tick();
            }
            None => self.output.note(terminal::fitted(&format!("{}{text}", self.of))),
        }
    }

    /// Shows a step by its time alone.
    pub(super) fn timed_step(&mut self, step: u64, step_s: f64) {
        self.show(step, step_s, |_| milliseconds(step_s));
    }

    /// Shows a step by its figures, which are shorter beside a bar.
    fn show(&mut self, step: u64, step_s: f64, figures: impl Fn(bool) -> String) {
        let num_steps = self.num_steps;
        if let Some(bar) = &self.bar {
            self.figures = figures(true);
            bar.set_position(step);
            bar.set_message(self.figures.clone());
        }
        if self.pace.is_line_due() || step == num_steps {
            let left = step_s * (num_steps - step) as f64;
            self.print_unless_bar(&format!("step {step}/{num_steps}  {}  ETA {left:.0} s", figures(false)));
        }
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.set_message(self.figures.clone());
            bar.finish();
        }
    }
}

impl Observer for Progress {
    fn begins(&mut self, work: Work) {
        let what = match work {
            Work::Saving => "saving the weights".to_owned(),
            Work::Checkpoint => "writing a checkpoint".to_owned(),
            Work::Evaluation { batch, num_batches } => format!("evaluating: batch {batch} of {num_batches}"),
        };
        if let Some(bar) = &self.bar {
            bar.set_message(what.clone());
        }
        if self.pace.is_line_due() {
            self.print_unless_bar(&what);
        }
    }

    fn step(&mut self, line: &StepLine) {
        if line.skipped {
            self.print_line(&skipped(line));
        }
        let norm = line.grad_norm.map_or_else(|| "none".to_owned(), |norm| format!("{norm:.3}"));
        let learns = self.learns;
        self.show(line.step, line.step_s, |is_short| {
            let beside = if is_short {
                String::new()
            } else {
                format!("{}  grad norm {norm}", parts(&line.loss_parts))
            };
            figures(line, learns, &beside)
        });
    }

    fn checkpoint_failed(&mut self, step: u64, error: &EngineError) {
        self.print_line(&format!("warning: no checkpoint after step {step}, and the run goes on: {error}"));
    }

    fn old_checkpoint_stays(&mut self, error: &CheckpointError) {
        self.print_line(&format!("warning: {error}"));
    }

    fn warning(&mut self, warning: &str) {
        self.print_line(&format!("warning: {warning}"));
    }

    fn evaluation(&mut self, line: &EvalLine) {
        if let Some(bar) = &self.bar {
            bar.set_message(self.figures.clone());
        }
        let parts = parts(&line.loss_parts);
        self.print_line(&format!(
            "step {}  validation loss {}{parts}",
            line.step,
            loss(line.validation_loss)
        ));
    }
}

/// The figures of a step: its loss, `beside_loss`, and its speed; its time alone if nothing is learned.
fn figures(line: &StepLine, learns: bool, beside_loss: &str) -> String {
    if !learns {
        return milliseconds(line.step_s);
    }
    let scale = line.loss_scale.map_or_else(String::new, |scale| format!("  loss scale {scale}"));
    format!("loss {}{beside_loss}{scale}  {:.0} tokens/s", loss(line.loss), line.tokens_per_s)
}

/// What a loss reports beside its value, in brackets, if all of it is known.
fn parts(parts: &[LossPart]) -> String {
    let of = |part: &LossPart| Some(format!("{} {:.4}", part.name.replace('_', " "), part.mean?));
    match parts.iter().map(of).collect::<Option<Vec<String>>>() {
        Some(known) if !known.is_empty() => format!(" ({})", known.join(", ")),
        _ => String::new(),
    }
}

fn milliseconds(step_s: f64) -> String {
    format!("{:.1} ms", 1000.0 * step_s)
}

/// Why a step did not change the weights.
fn skipped(line: &StepLine) -> String {
    let step = line.step;
    let Some(scale) = line.loss_scale.filter(|_| line.tokens > 0) else {
        return format!("warning: step {step} skipped: no token of it carries loss; no weight was changed");
    };
    let next = match line.next_loss_scale {
        Some(next) if next != scale => format!("the scale is now {next}"),
        _ => "the scale stays".to_owned(),
    };
    format!(
        "warning: step {step} skipped: a gradient overflowed in fp16 at loss scale {scale}; {next}; no weight was changed"
    )
}

fn loss(loss: Option<f64>) -> String {
    loss.map_or_else(|| "none".to_owned(), |loss| format!("{loss:.4}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_what_a_loss_reports_if_all_of_it_is_known() {
        let part = |name, mean| LossPart { name, mean, num_targets: 1 };
        let known = [part("cross_entropy", Some(2.5)), part("divergence", Some(0.125))];
        assert_eq!(parts(&known), " (cross entropy 2.5000, divergence 0.1250)");
        assert_eq!(parts(&[known[0], part("divergence", None)]), "");
        assert_eq!(parts(&[]), "");
    }

    /// A text always carries loss, but a user's own source of batches may mask all tokens of a step.
    #[test]
    fn a_skipped_step_says_whether_it_overflowed_or_had_nothing_to_learn() {
        let line = |loss_scale: Option<f64>, next: f64, tokens| StepLine {
            step: 7,
            tokens,
            loss_scale,
            next_loss_scale: loss_scale.map(|_| next),
            ..StepLine::default()
        };
        let lowered = "warning: step 7 skipped: a gradient overflowed in fp16 at loss scale 512; the scale is now 256; no weight was changed";
        let kept = "warning: step 7 skipped: a gradient overflowed in fp16 at loss scale 512; the scale stays; no weight was changed";
        let masked = "warning: step 7 skipped: no token of it carries loss; no weight was changed";
        assert_eq!(skipped(&line(Some(512.0), 256.0, 3)), lowered);
        assert_eq!(skipped(&line(Some(512.0), 512.0, 3)), kept);
        assert_eq!(skipped(&line(Some(512.0), 512.0, 0)), masked);
        assert_eq!(skipped(&line(None, 0.0, 0)), masked);
    }
}
