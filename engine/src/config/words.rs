//! Keys whose values are words from a list.
//!
//! Reading accepts every string: which words are offered, not yet offered or a slip of the pen is for `resolve` to say,
//! with a better message than "wrong type".

use schemars::{Schema, json_schema};

use super::findings::Findings;
use super::kind::Kind;
use super::place::Place;
use crate::files::json::{Node, Value, nearest, shorten};

/// Declares a list of words as an enum; any other word is kept in `Other`.
macro_rules! words {
    ($(#[doc = $doc:literal])+ $name:ident { $( $variant:ident = $word:literal, )+ }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) enum $name {
            $( $variant, )+
            Other(String),
        }

        impl Kind for $name {
            fn expected() -> String {
                one_of(&[$( $word ),+])
            }

            fn schema() -> Schema {
                json_schema!({ "enum": [$( $word ),+] })
            }

            fn read(node: &Node) -> Option<Self> {
                let Value::String(word) = &node.value else { return None };
                Some(match word.as_str() {
                    $( $word => Self::$variant, )+
                    _ => Self::Other(word.clone()),
                })
            }
        }

        impl $name {
            /// The words that are offered.
            pub(crate) const OFFERED: &[&str] = &[$( $word ),+];
        }
    };
}

words! {
    /// Model families.
    FamilyWord { Gpt2 = "gpt2", Mlp = "mlp", Timed = "timed", }
}

words! {
    /// Pipeline schedules.
    ScheduleWord {
        GPipe = "gpipe",
        OneFOneB = "1f1b",
        EagerOneFOneB = "eager-1f1b",
        Interleaved = "interleaved",
        Bfs = "bfs",
        ZbH1 = "zb-h1",
        ZbH2 = "zb-h2",
        ZbV = "zb-v",
    }
}

words! {
    /// Reduction policies.
    ReduceWord { Every = "every", Last = "last", }
}

words! {
    /// What `unit_layers` may say beside a number.
    UnitWord { Stage = "stage", }
}

words! {
    /// What `resident_units` may say beside a number.
    ResidencyWord { Strict = "strict", All = "all", Auto = "auto", }
}

words! {
    /// Optimizers.
    OptimizerWord { AdamW = "AdamW", Adam = "Adam", Sgd = "SGD", }
}

words! {
    /// Learning rate schedules.
    SchedulerWord { WarmupLr = "WarmupLR", WarmupDecayLr = "WarmupDecayLR", WarmupCosineLr = "WarmupCosineLR", }
}

words! {
    /// Forms of a warm-up.
    WarmupWord { Log = "log", Linear = "linear", }
}

words! {
    /// Backends.
    BackendWord { Threads = "threads", }
}

/// The words as a choice: `"a", "b" or "c"`.
pub(crate) fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Words of a key that are known and have no effect yet.
pub(crate) struct Unoffered {
    /// Words that come later.
    pub(crate) later: &'static [&'static str],
    /// Words that DeepSpeed knows and that do not come.
    pub(crate) never: &'static [&'static str],
}

/// Reports a word that is not offered: as such where it is known, else with the nearest of those that are.
pub(crate) fn refuse(
    findings: &mut Findings,
    place: &Place,
    word: &str,
    offered: &'static [&'static str],
    unoffered: &Unoffered,
) {
    let value = format!("\"{}\"", shorten(word));
    let repair = format!("use {}", one_of(offered));
    let is = |known: &&str| known.eq_ignore_ascii_case(word);
    if unoffered.later.iter().any(is) {
        findings.not_yet(place, &value, "that", repair);
    } else if unoffered.never.iter().any(is) {
        findings.not_offered(place, &value, "that", repair);
    } else {
        let known = offered.iter().chain(unoffered.later).copied();
        let repair = match nearest(word, known) {
            Some(nearest) => format!("did you mean \"{nearest}\"?"),
            None => repair,
        };
        findings.broken(place, &value, format!("it must be {}", one_of(offered)), repair);
    }
}
