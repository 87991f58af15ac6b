//! How the result of a simulation is printed.

use std::path::Path;

use clap::ValueEnum;

use super::error::SimulateError;

/// How a result is printed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    pub(super) format: Format,
    /// Whether the critical path is printed.
    pub(super) explain: bool,
    /// Columns that tables and the grid may take.
    pub(super) width: usize,
}

/// How a step is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Tables.
    #[default]
    Text,
    /// All figures, to be read by programs.
    Json,
    /// A picture of the timeline, with the memory in use.
    Svg,
    /// A trace for ui.perfetto.dev or chrome://tracing.
    Chrome,
}

impl Format {
    /// What a file of this format holds.
    fn contents(self) -> &'static str {
        match self {
            Self::Text => "tables",
            Self::Json => "JSON",
            Self::Svg => "a picture",
            Self::Chrome => "a trace",
        }
    }

    /// Refuses a file whose name belongs to another format: programs choose by the name how to open it.
    pub(super) fn check_name(self, out: &Path) -> Result<(), SimulateError> {
        let extension = out.extension().map(|of| of.to_string_lossy().to_lowercase());
        let (expected, repair) = match (extension.as_deref(), self) {
            (Some("svg"), Self::Text | Self::Json | Self::Chrome) => ("a picture", "--format svg"),
            (Some("json"), Self::Text | Self::Svg) => {
                ("JSON", "--format json or, for a trace of a run, --format chrome")
            }
            _ => return Ok(()),
        };
        let (path, found) = (out.to_owned(), self.contents());
        Err(SimulateError::OtherFormat { path, expected, found, repair })
    }
}
