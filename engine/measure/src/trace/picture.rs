//! A recorded step to look at, alone or under its prediction: `ui.perfetto.dev` and `chrome://tracing` open it.

use pipezero_schedule::render::{Track, chrome};
use pipezero_schedule::simulate::Timeline;

use crate::recording::Recording;

/// A trace with a process for each rank, a track for each of its lanes, and arrows from sends to receives and from gathers to
/// their readers. With a prediction, each pipeline rank's comes first and the measured ones of its data ranks follow.
///
/// # Panics
/// If the prediction is of another program.
pub fn picture(recording: &Recording<'_>, predicted: Option<&Timeline>) -> String {
    let program = recording.program();
    let name = match predicted {
        Some(_) => "measured".to_owned(),
        None => format!("step {}", recording.step()),
    };
    let predicted = predicted.map(|timeline| Track { name: "predicted", data_rank: None, program, timeline });
    let timelines = recording.timelines();
    let has_several = timelines.len() > 1;
    let measured = timelines.iter().zip(0..).map(|(timeline, data_rank)| Track {
        name: &name,
        data_rank: has_several.then_some(data_rank),
        program,
        timeline,
    });
    let tracks: Vec<Track<'_>> = predicted.into_iter().chain(measured).collect();
    chrome(&tracks, "pipezero")
}
