//! Why a command failed: prints the error and ends the process with its status.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;

use pipezero_config::{CombinationTable, ConfigErrors, EngineFile, Unfixed};
use pipezero_files::host::LaunchedProcess;
use pipezero_files::printable::printable;
use pipezero_plan::FromFileError;
use pipezero_plan::costs::PredictError;
use pipezero_train::TrainedRunError;

use super::exit_status::InputMistake;
use super::figures::counted;
use super::output::{note, show_error};
use super::table::Table;
use super::terminal;

/// Why a command failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// Mistakes in the run file or its overrides; exit status 2.
    Config(ConfigErrors),
    /// A run file in which --fix leaves something; exit status 2.
    Unfixed(Unfixed),
    /// Any other mistake in the input; exit status 2, as for arguments that cannot be parsed.
    Input(Box<dyn Error>),
    /// The reader of stdout closed it, as `head` does: not an error.
    ReaderGone,
    /// Another process of the job says what has failed; exit status 1.
    SaidElsewhere,
    /// A signal of this number has ended the work before its end, which has been said; exit status 128 and the number, as shells report it.
    Signalled(i32),
    /// The input is valid, and the command failed; exit status 1.
    Other(Box<dyn Error>),
}

impl Failure {
    /// The failure of one of several engines; mistakes in its file stand at their places and need no name.
    pub(super) fn of_engine(self, engine: &str) -> Self {
        let of = |source: Box<dyn Error>| Box::new(OfEngine { engine: engine.to_owned(), source });
        match self {
            Self::Input(error) => Self::Input(of(error)),
            Self::Other(error) => Self::Other(of(error)),
            other => other,
        }
    }

    /// The same of an engine whose run file is read: mistakes in it get the keys and the file in which they stand.
    pub(super) fn of_engine_file(self, engine: &EngineFile) -> Self {
        match self {
            Self::Config(errors) => Self::Config(engine.in_place(errors)),
            other => other.of_engine(&engine.name),
        }
    }

    /// Prints the error; the exit status.
    pub(super) fn report(self) -> u8 {
        // If stderr is closed, the exit status still says that the command failed.
        match self {
            Self::Unfixed(unfixed) => {
                let (num_fixable, num_mended) = (unfixed.num_fixable, unfixed.num_mended);
                let status = Self::Config(unfixed.errors).report();
                let mended = match num_mended {
                    0 => String::new(),
                    _ => format!(", shown in a text with {} mended to be JSON", counted(num_mended, "part")),
                };
                note(terminal::wrapped(
                    &format!(
                        "\nnothing was written: --fix mends what can mean one thing alone, {num_fixable} of these{mended}; decide the others"
                    ),
                    terminal::width(),
                ));
                status
            }
            Self::Config(errors) if of_other_rank().is_some() => {
                print_error(&errors);
                2
            }
            Self::Config(errors) => {
                let (mistakes, subject) = (errors.counted(), errors.subject());
                let drawn = errors.render(&terminal::report_handler());
                let table = errors
                    .combinations()
                    .map_or_else(String::new, |table| combinations(table, terminal::width()));
                let set: String = errors
                    .arguments_in_question()
                    .iter()
                    .map(|argument| format!(" --set {}", printable(argument)))
                    .collect();
                let with = if set.is_empty() { "" } else { " with" };
                let headline = format!("error: not {subject}{with}{set}, {mistakes}:");
                let headline = terminal::fitted(&printable(&headline));
                let _ = io::stderr().write_all(format!("{headline}\n{drawn}{table}").as_bytes());
                2
            }
            Self::Input(error) => {
                print_error(&*error);
                2
            }
            Self::ReaderGone => 0,
            Self::SaidElsewhere => 1,
            Self::Signalled(signal) => u8::try_from(128 + signal).unwrap_or(1),
            Self::Other(error) => {
                print_error(&*error);
                1
            }
        }
    }
}

/// Prints an error in words; of several processes, which may all find the same, with the rank.
fn print_error(error: &dyn Error) {
    let of = of_other_rank().map_or_else(String::new, |rank| format!("rank {rank}: "));
    show_error(terminal::fitted(&format!("{of}error: {error}")));
}

/// The rank of this process, unless it is the one that speaks for all.
fn of_other_rank() -> Option<usize> {
    let launched = LaunchedProcess::this().ok().flatten()?;
    (launched.rank > 0).then_some(launched.rank)
}

/// What a refused combination costs beside others, below the errors.
fn combinations(table: &CombinationTable, width: usize) -> String {
    let mut drawn = Table::new(CombinationTable::COLUMNS);
    for row in &table.rows {
        let [name, cells @ ..] = row.cells();
        drawn.row(name, cells);
    }
    format!("\n{drawn:width$}")
}

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Self {
        Self::Config(errors)
    }
}

impl From<FromFileError> for Failure {
    fn from(error: FromFileError) -> Self {
        match error {
            FromFileError::File(errors) => Self::Config(errors),
            FromFileError::Plan(error) => error.into(),
            error @ FromFileError::Memory { .. } => Self::Other(Box::new(error)),
        }
    }
}

impl From<TrainedRunError> for Failure {
    fn from(error: TrainedRunError) -> Self {
        match error {
            TrainedRunError::RunDir(error) => error.into(),
            TrainedRunError::Config(errors) => errors.into(),
            TrainedRunError::Plan(error) => error.into(),
            TrainedRunError::Engine(error) => error.into(),
            error => Self::Input(Box::new(error)),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ReaderGone,
            _ => Self::Other(Box::new(error)),
        }
    }
}

impl<E: InputMistake + Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        if error.is_input_mistake() { Self::Input(Box::new(error)) } else { Self::Other(Box::new(error)) }
    }
}

/// What went wrong with one of several engines.
#[derive(Debug, thiserror::Error)]
#[error("engine `{engine}`: {source}")]
struct OfEngine {
    /// Its name.
    engine: String,
    /// What went wrong.
    source: Box<dyn Error>,
}

/// Costs that a file lacks, with the file's name.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub(super) struct OfCostsFile {
    /// The file.
    pub(super) path: PathBuf,
    /// What it lacks.
    pub(super) source: PredictError,
}

impl InputMistake for OfCostsFile {
    fn is_input_mistake(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_is_gone_is_not_an_error() {
        let gone = io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(matches!(Failure::from(gone), Failure::ReaderGone));
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert!(matches!(Failure::from(full), Failure::Other(_)));
    }
}
