//! The line about weights that were read.

use pipezero_run::engine::LoadedWeights;

use super::figures::bytes;
use super::output::ProcessOutput;
use super::terminal;

/// Prints the line if weights were read. Only the process that prints for the run does so, since only it knows the figures of all processes.
pub(super) fn say(output: ProcessOutput, weights: Option<&LoadedWeights>) {
    if let Some(weights) = weights.filter(|_| output.is_printed()) {
        output.note(terminal::fitted(&line(weights)));
    }
}

fn line(weights: &LoadedWeights) -> String {
    let LoadedWeights { from, stored, read_bytes, seconds, process_bytes, piece_bytes, .. } = weights;
    if *read_bytes == 0 {
        return format!("nothing of {from} is used: all parameters are new");
    }
    format!(
        "read {} of {} from {from} in {seconds:.2} s, kept as {}; one process held at most {} for that (counted), {} of it only while reading",
        bytes(*read_bytes),
        stored.join(" and "),
        weights.kept_as(),
        bytes(*process_bytes),
        bytes(*piece_bytes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_the_run_keeps() {
        let weights = |parameter_type: &str, parameter_bytes, master_bytes| LoadedWeights {
            from: "base".to_owned(),
            stored: vec!["bf16".to_owned(), "f32".to_owned()],
            read_bytes: 3 << 20,
            seconds: 1.26,
            parameter_type: parameter_type.to_owned(),
            parameter_bytes,
            master_bytes,
            process_bytes: 5 << 20,
            piece_bytes: 2 << 20,
        };
        for (weights, kept) in [
            (weights("f32", 1, 0), "f32"),
            // Nothing of it is trained.
            (weights("bf16", 1, 0), "bf16"),
            (weights("bf16", 1, 1), "bf16 and an f32 master copy"),
            (weights("fp16", 0, 1), "an f32 master copy, rounded to fp16 for each use"),
        ] {
            assert_eq!(
                line(&weights),
                format!(
                    "read 3.00 MiB of bf16 and f32 from base in 1.26 s, kept as {kept}; one process held at most 5.00 MiB for that (counted), 2.00 MiB of \
                     it only while reading"
                )
            );
        }
        let none = LoadedWeights { read_bytes: 0, ..weights("f32", 1, 0) };
        assert_eq!(line(&none), "nothing of base is used: all parameters are new");
    }
}
