//! What can be wrong with a run file. Every message states the value, the rule and the repair, at the value's place.

use std::fmt;

use miette::{Diagnostic, GraphicalReportHandler, LabeledSpan, SourceCode};
use pipezero_files::json::{Edit, JsonError, SourceKind, Span, is_slip, join, shorten};
use pipezero_files::printable::printable;

use super::elsewhere::{self, Elsewhere};
use super::place::Place;
use super::refusal::{CombinationTable, Refusal};
use super::resolved::Run;
use super::several::MasterProblem;

/// Everything that is wrong with one run file, in the order of the file.
///
/// `Display` gives one line per error (a refused combination adds its table); [`ConfigErrors::render`] shows each
/// below the line of the file that it is about.
#[derive(Clone, Debug)]
pub struct ConfigErrors {
    errors: Vec<ConfigError>,
    refused: Option<Box<Run>>,
    /// The `--set` arguments that changed the file.
    arguments: Vec<String>,
    /// Whether they are about a master file itself, and not about the run of an engine.
    is_of_master: bool,
}

/// Mistakes that are drawn at most.
const DRAWN_MAX: usize = 100;

/// Bytes of files that are read at most to draw mistakes: each is looked for from the beginning of its file.
const DRAWN_BYTES_MAX: usize = 128 << 20;

impl ConfigErrors {
    /// Sorts the errors by place: those of files first, then those of `--set` arguments. `errors` is not empty.
    pub(crate) fn new(mut errors: Vec<ConfigError>) -> Self {
        debug_assert!(!errors.is_empty(), "a failure names its reason");
        errors.sort_by(|one, other| one.place.span.order().cmp(&other.place.span.order()));
        Self { errors, refused: None, arguments: Vec::new(), is_of_master: false }
    }

    /// Errors of a master file itself.
    pub(super) fn of_master(errors: Vec<ConfigError>) -> Self {
        Self { is_of_master: true, ..Self::new(errors) }
    }

    /// What the file is not, for these reasons.
    pub fn subject(&self) -> &'static str {
        if self.is_of_master { "a valid master file" } else { "a valid run" }
    }

    /// These errors of a file that would be this run. Where something else than a refused combination is wrong, there is
    /// no such run.
    pub(crate) fn of(self, run: Option<Run>) -> Self {
        let only_refused = self.errors.iter().all(|error| matches!(error.problem, Problem::Refused(_)));
        Self { refused: run.filter(|_| only_refused).map(Box::new), ..self }
    }

    /// Shows what every refused combination costs, as `table` counts it for the run that the file would be.
    pub fn with_costs(mut self, table: impl Fn(&Run) -> Option<CombinationTable>) -> Self {
        let table = self.refused.as_deref().and_then(table);
        for error in &mut self.errors {
            if let Problem::Refused(refusal) = &mut error.problem {
                refusal.table.clone_from(&table);
            }
        }
        self
    }

    /// Those of several files, one after the other.
    pub fn joined(all: Vec<Self>) -> Self {
        let mut joined =
            Self { errors: Vec::new(), refused: None, arguments: Vec::new(), is_of_master: false };
        for found in all {
            joined.errors.extend(found.errors);
            joined.arguments.extend(found.arguments);
        }
        joined
    }

    /// These errors of a run file that stands at a key of another file.
    pub(super) fn within(mut self, prefix: &str) -> Self {
        self.errors.iter_mut().for_each(|error| error.place.path = join(prefix, &error.place.path));
        self
    }

    /// Why the file cannot be read, if it cannot.
    pub(super) fn unreadable(&self) -> Option<String> {
        let error = self.errors.iter().find(|error| matches!(error.problem, Problem::Unreadable { .. }))?;
        Some(error.message())
    }

    /// These errors of a file that `--set` arguments changed.
    pub(crate) fn after_set(self, arguments: &[String]) -> Self {
        Self { arguments: arguments.to_owned(), ..self }
    }

    /// The `--set` arguments, where one of them may be the cause of a mistake that is shown in the file.
    pub fn arguments_in_question(&self) -> &[String] {
        let in_file = self.errors.iter().any(|error| error.place.span.source.kind == SourceKind::File);
        if in_file { &self.arguments } else { &[] }
    }

    /// How many mistakes there are, in words.
    pub fn counted(&self) -> String {
        match self.errors.len() {
            1 => "1 mistake".to_owned(),
            count if count > DRAWN_MAX => format!("more than {DRAWN_MAX} mistakes"),
            count => format!("{count} mistakes"),
        }
    }

    /// The errors, at least one.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.errors.iter()
    }

    /// What refused combinations cost, beside those that may stand in for them.
    pub fn combinations(&self) -> Option<&CombinationTable> {
        self.errors.iter().find_map(|error| error.problem.table())
    }

    /// Every error as miette draws it: message, the line of the file with the value marked, and the repair.
    pub fn render(&self, handler: &GraphicalReportHandler) -> String {
        let mut text = String::new();
        let longest =
            self.errors.iter().take(DRAWN_MAX).map(|error| error.place.span.source.text.len()).max();
        let num_drawn = (DRAWN_BYTES_MAX / longest.unwrap_or(0).max(1)).clamp(1, DRAWN_MAX);
        for (i, error) in self.errors.iter().take(num_drawn).enumerate() {
            if i > 0 {
                text.push('\n');
            }
            handler.render_report(&mut text, error).expect("a String takes all that is written to it");
        }
        if self.errors.len() > num_drawn {
            text += "\nand more; mend these first\n";
        }
        // An empty line of a repair comes indented.
        text.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.errors.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            if !error.says_its_place() {
                write!(f, "{}: ", error.place.span)?;
            }
            write!(f, "{error}")?;
            if let Some(repair) = error.problem.repair() {
                write!(f, "; {repair}")?;
            }
            if let Some(table) = error.problem.table() {
                write!(f, "\n{table}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// One thing that is wrong, with its place.
#[derive(Clone, Debug)]
pub struct ConfigError {
    place: Place,
    problem: Problem,
    /// What mends a text that is not JSON.
    edit: Option<Edit>,
}

/// The text is not JSON, or holds a key twice.
impl From<JsonError> for ConfigError {
    fn from(error: JsonError) -> Self {
        let by_fix =
            error.edit.as_ref().map(|_| "`pipezero check --fix` writes the file with this mended".to_owned());
        let problem = Problem::Syntax { message: error.message(), repair: error.repair.or(by_fix) };
        let place = Place { path: error.path.unwrap_or_default(), span: error.span };
        Self { place, problem, edit: error.edit.map(|edit| *edit) }
    }
}

impl ConfigError {
    pub(crate) fn new(place: Place, problem: Problem) -> Self {
        Self { place, problem, edit: None }
    }

    /// What mends it, where only one thing can be meant.
    pub(super) fn edit(&self) -> Option<Edit> {
        let text = self.problem.replacement(&self.place);
        self.edit.clone().or_else(|| Some(Edit { span: self.place.span.clone(), text: text? }))
    }

    /// Whether the text is no JSON there.
    pub(super) fn is_syntax(&self) -> bool {
        matches!(self.problem, Problem::Syntax { .. }) && self.place.path.is_empty()
    }

    /// The key that says what an unknown one of another system says.
    pub(super) fn usual_key(&self) -> Option<&str> {
        match &self.problem {
            Problem::UnknownKey { elsewhere: Some(Elsewhere::Key(key, _)), .. } => Some(key),
            _ => None,
        }
    }

    /// Whether a key is absent that has no default.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self.problem, Problem::Missing { .. })
    }

    /// Line and column in the run file, counted from 1; `None` for a `--set` argument.
    pub fn line_column(&self) -> Option<(usize, usize)> {
        (self.place.span.source.kind == SourceKind::File).then(|| self.place.span.line_column())
    }

    /// The key's path, such as `parallel.pipeline`; empty where the text is not JSON at all.
    pub fn path(&self) -> &str {
        &self.place.path
    }

    /// Where the key is unknown: looks for what says the same, by the path of its section and its name, and whether the file
    /// `has` that, and where.
    pub(super) fn look_elsewhere(
        &mut self,
        find: impl Fn(&str, &str) -> Option<String>,
        has: impl Fn(&str) -> Option<Span>,
    ) {
        let Problem::UnknownKey { elsewhere, nearest, stands_at } = &mut self.problem else { return };
        let (section, name) = self.place.path.rsplit_once('.').unwrap_or(("", &self.place.path));
        if elsewhere.is_none() {
            *elsewhere = find(section, name).map(|key| Elsewhere::Key(key, None));
        }
        let usual = match (elsewhere, nearest) {
            (Some(Elsewhere::Key(key, _)), _) => Some(key.clone()),
            (None, Some(nearest)) => Some(join(section, nearest)),
            _ => None,
        };
        let own = &self.place.span;
        *stands_at = usual.and_then(|key| has(&key)).map(|span| span.seen_from(own));
    }

    /// What is wrong.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

/// A kind of mistake, with the values that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The file could not be read.
    Unreadable {
        /// The system's reason.
        reason: String,
    },
    /// The text is not JSON or holds a key twice, or a `--set` argument is not `key.path=value`.
    Syntax {
        /// What is wrong with it.
        message: String,
        /// What to write, where that can be said.
        repair: Option<String>,
    },
    /// No such key.
    UnknownKey {
        /// The key that says here what this one says in another system.
        elsewhere: Option<Elsewhere>,
        /// The known key of the same section that is spelled most like it, if any is near.
        nearest: Option<String>,
        /// Where that key stands already: line and column, behind the file's name if that is another.
        stands_at: Option<String>,
    },
    /// Another type of value is needed.
    WrongType {
        /// What is needed.
        expected: String,
        /// What was found.
        found: String,
        /// What to write instead.
        repair: String,
        /// The value in the type that is needed, where its form shows which that is.
        replacement: Option<String>,
    },
    /// A key without default is absent.
    Missing {
        /// Why it is needed.
        rule: String,
        /// What to write.
        repair: String,
    },
    /// The value breaks a rule, alone or with other keys, or asks for something that is not offered.
    Rule {
        /// The value.
        value: String,
        /// The rule that it breaks.
        rule: String,
        /// What to write instead.
        repair: String,
    },
    /// The data that the key names cannot be used for this run.
    Data {
        /// What is wrong with it, and what mends that.
        reason: String,
    },
    /// A combination of ZeRO and pipeline that costs more than it gains.
    Refused(Box<Refusal>),
    /// A mistake of the kinds that only files of several models have.
    Master(MasterProblem),
}

impl Problem {
    fn repair(&self) -> Option<String> {
        match self {
            Self::Unreadable { .. } | Self::Data { .. } => None,
            Self::Syntax { repair, .. } => repair.clone(),
            Self::UnknownKey { elsewhere: Some(Elsewhere::Key(key, _)), stands_at: Some(place), .. } => {
                Some(format!("here it is `{key}`, which stands at {place} already: remove one of the two"))
            }
            Self::UnknownKey { elsewhere: None, nearest: Some(nearest), stands_at: Some(place) } => {
                Some(format!("did you mean `{nearest}`? that stands at {place} already"))
            }
            Self::UnknownKey { elsewhere: Some(elsewhere), .. } => Some(elsewhere.repair()),
            Self::UnknownKey { nearest: Some(nearest), .. } => Some(format!("did you mean `{nearest}`?")),
            Self::UnknownKey { nearest: None, .. } => {
                Some("remove it; docs/run-file.md lists every key".to_owned())
            }
            Self::WrongType { repair, .. } | Self::Missing { repair, .. } | Self::Rule { repair, .. } => {
                Some(repair.clone())
            }
            Self::Refused(refusal) => Some(refusal.repair()),
            Self::Master(problem) => problem.repair(),
        }
    }

    /// What stands for the text at its place, where only one thing can be meant.
    fn replacement(&self, place: &Place) -> Option<String> {
        let name = place.path.rsplit('.').next().unwrap_or(&place.path);
        match self {
            Self::WrongType { replacement, .. } => replacement.clone(),
            Self::UnknownKey { stands_at: Some(_), .. } => None,
            Self::UnknownKey { elsewhere: Some(Elsewhere::Key(usual, _)), .. } => {
                Some(format!("\"{}\"", elsewhere::renamed(&place.path, usual)?))
            }
            Self::UnknownKey { elsewhere: None, nearest: Some(nearest), .. } => {
                is_slip(name, nearest).then(|| format!("\"{nearest}\""))
            }
            Self::Master(problem) => Some(format!("\"{}\"", problem.meant(name)?)),
            _ => None,
        }
    }

    fn table(&self) -> Option<&CombinationTable> {
        match self {
            Self::Refused(refusal) => refusal.table.as_ref(),
            _ => None,
        }
    }
}

/// Keys are the user's text and may be long or hold line breaks.
fn shorten_path(path: &str) -> String {
    path.split('.').map(shorten).collect::<Vec<_>>().join(".")
}

/// Value and rule, as text for a terminal.
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.message()))
    }
}

impl ConfigError {
    /// Whether the message begins with its place, since no line of the file can be shown for it.
    fn says_its_place(&self) -> bool {
        match self.problem {
            Problem::Unreadable { .. } => true,
            Problem::Syntax { .. } | Problem::WrongType { .. } => !self.place.span.source.is_shown(),
            _ => false,
        }
    }

    /// The path is added here and nowhere else.
    fn message(&self) -> String {
        let path = match self.place.path.as_str() {
            "" => "the run file".to_owned(),
            path => format!("`{}`", shorten_path(path)),
        };
        // Neither the value nor its line is shown.
        if let (Problem::WrongType { expected, .. }, false) =
            (&self.problem, self.place.span.source.is_shown())
        {
            return format!("{}: {path} must be {expected}: it does not begin with `{{`", self.place.span);
        }
        match &self.problem {
            // No line of the file can be shown that would say which file it is.
            Problem::Unreadable { reason } => {
                format!("{}: cannot read the run file: {reason}", self.place.span.source.name)
            }
            Problem::Syntax { message, .. } => match self.place.span.source.is_shown() {
                true => message.clone(),
                false => format!("{}: {message}", self.place.span),
            },
            Problem::UnknownKey { .. } => format!("unknown key {path}"),
            Problem::WrongType { expected, found, .. } => {
                format!("{path} must be {expected}, but is {found}")
            }
            Problem::Missing { rule, .. } => format!("{path} is missing: {rule}"),
            Problem::Data { reason } => format!("{path}: {reason}"),
            Problem::Rule { value, rule, .. } => format!("{path} is {value}, but {rule}"),
            Problem::Refused(refusal) => format!("{path}: {}: {}", refusal.headline, refusal.reason),
            Problem::Master(problem) => problem.message(&path),
        }
    }
}

impl std::error::Error for ConfigError {}

impl Diagnostic for ConfigError {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(printable(&self.problem.repair()?).into_owned()))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        // There is nothing to show of a file that could not be read.
        let is_read = !matches!(self.problem, Problem::Unreadable { .. });
        (is_read && self.place.span.source.is_shown()).then_some(&*self.place.span.source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.source_code()?;
        let length = (self.place.span.end - self.place.span.start).min(MARKED_BYTES_MAX);
        Some(Box::new(std::iter::once(LabeledSpan::new(None, self.place.span.start, length))))
    }
}

/// Bytes of a value that are marked at most.
const MARKED_BYTES_MAX: usize = 1000;
