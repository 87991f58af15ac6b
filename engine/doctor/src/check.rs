//! A check: what was found, by which rule that is right, and what to do where it is not.

use std::fmt;

use serde::Serialize;

/// The parts of an examination, in the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// What each process runs on.
    Hosts,
    /// Messages alone, of every group and lane.
    Lanes,
    /// Small models beside one pipeline rank.
    Parity,
    /// Steps of the run itself.
    Run,
    /// Clocks of the processes.
    Clocks,
    /// Where the run directory would be.
    Disk,
}

impl Part {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hosts => "hosts",
            Self::Lanes => "groups and lanes",
            Self::Parity => "parity",
            Self::Run => "the run itself",
            Self::Clocks => "clocks",
            Self::Disk => "disk",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a check came to; the worst is the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As the rule says.
    Ok,
    /// The run will do, but slower than it could, or a figure is uncertain.
    Warning,
    /// The run would fail, or compute something else.
    Failed,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        })
    }
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Where it belongs.
    pub part: Part,
    /// What was checked.
    pub what: String,
    /// What it came to.
    pub verdict: Verdict,
    /// What was found.
    pub value: String,
    /// What has to hold.
    pub rule: String,
    /// What to do, where it does not hold.
    pub repair: Option<String>,
}

impl Check {
    /// A check that its rule holds.
    pub(super) fn new(
        part: Part,
        what: impl Into<String>,
        value: impl Into<String>,
        rule: impl Into<String>,
    ) -> Self {
        let (what, value, rule) = (what.into(), value.into(), rule.into());
        Self { part, what, verdict: Verdict::Ok, value, rule, repair: None }
    }

    /// The same where the rule holds, or else a warning with this repair.
    pub(super) fn warns_unless(self, holds: bool, repair: impl Into<String>) -> Self {
        self.unless(holds, Verdict::Warning, repair)
    }

    /// The same where the rule holds, or else a failure with this repair.
    pub(super) fn fails_unless(self, holds: bool, repair: impl Into<String>) -> Self {
        self.unless(holds, Verdict::Failed, repair)
    }

    fn unless(self, holds: bool, verdict: Verdict, repair: impl Into<String>) -> Self {
        if holds { self } else { Self { verdict, repair: Some(repair.into()), ..self } }
    }
}
